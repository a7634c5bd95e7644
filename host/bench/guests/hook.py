"""The hook that is measured, for CPython inside a component."""

from wit_world.exports.on_model_call import Effect_Note
from wit_world.exports.on_tool_call import Effect_Refuse


class OnModelCall:
    def on_model_call(self, context):
        turns = context.budget.turns
        if turns.limit is None:
            return None
        left = max(turns.limit - turns.used, 0)
        return Effect_Note(f"{left} of {turns.limit} turns are left.") if left <= 3 else None


class OnToolCall:
    def on_tool_call(self, context, call):
        deletes = "rm -rf /" in call.arguments
        return Effect_Refuse("Work in the repository.") if deletes else None
