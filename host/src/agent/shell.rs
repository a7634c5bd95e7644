//! In which shell does a command of the policy run?

use std::time::Duration;

use crate::harness::Shell;
use crate::workspace::SandboxCommand;

/// Reads what the command before left, and leaves the same for the next, whatever way the command
/// ends but for a signal: a command past its time limit leaves nothing, and what was there stays.
///
/// The command is evaluated, and all before it is one line, so that its errors name its own lines and
/// show nothing else. What a shell sets itself is not carried over. A command that sets a trap on EXIT of its own, or `exec`s, is not remembered.
const KEPT: &str = r#"__tandem_state=/home/agent/.tandem-shell;
__tandem_leave() {
    local __tandem_name;
    for __tandem_name in $(compgen -v); do
        case $__tandem_name in
        __tandem_*|BASH*|COMP_*|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|LINENO|OPT*|PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_) ;;
        *) declare -p "$__tandem_name" ;;
        esac;
    done;
    declare -f;
    alias -p;
    shopt -p;
    printf 'cd -- %q\n' "$PWD";
    set +o;
};
trap '{ __tandem_leave >$__tandem_state.new && mv -f $__tandem_state.new $__tandem_state; } 2>/dev/null' EXIT;
__tandem_command=$1;
set --;
shopt -s expand_aliases;
[ ! -r "$__tandem_state" ] || . "$__tandem_state" 2>/dev/null;
eval "$__tandem_command""#;

/// The command that runs `line`.
pub(super) fn command(shell: Shell, line: &str, limit: Duration) -> SandboxCommand {
    match shell {
        Shell::New => SandboxCommand::bash(line, limit),
        Shell::Kept => {
            let script = KEPT.replace('\n', " ");
            SandboxCommand::argv(["/bin/bash", "-c", &script, "bash", line], limit)
        }
    }
}
