"""Asks a served policy as any program does that uses OpenAI's client. Arguments: URL, key, model."""

import sys

import openai

url, key, model = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)
messages = [{"role": "user", "content": "hi"}]

assert [entry.id for entry in client.models.list()] == [model]
assert client.models.retrieve(model).owned_by == "tandem"

whole = client.chat.completions.create(model=model, messages=messages, seed=1, max_tokens=20, n=2, logprobs=True)
assert len(whole.choices) == 2 and whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
for choice in whole.choices:
    assert choice.finish_reason in ("stop", "length") and choice.message.role == "assistant"
    assert all(entry.logprob <= 0 for entry in choice.logprobs.content)
assert sum(len(choice.logprobs.content) for choice in whole.choices) == whole.usage.completion_tokens

texts, usage = ["", ""], None
for event in client.chat.completions.create(
    model=model, messages=messages, seed=1, max_completion_tokens=20, n=2,
    stream=True, stream_options={"include_usage": True},
):
    usage = event.usage or usage
    for choice in event.choices:
        texts[choice.index] += choice.delta.content or ""
assert texts == [choice.message.content for choice in whole.choices], (texts, whole)
assert usage == whole.usage

extra = client.chat.completions.create(
    model=model, messages=messages, max_tokens=3, temperature=0, extra_body={"return_token_ids": True, "top_k": 5}
)
assert len(extra.choices[0].token_ids) == extra.usage.completion_tokens
assert len(extra.prompt_token_ids) == extra.usage.prompt_tokens

text = client.completions.create(model=model, prompt=["a", "b"], max_tokens=4, temperature=0, logprobs=0)
assert [choice.index for choice in text.choices] == [0, 1]
assert len(text.choices[0].logprobs.token_logprobs) == len(text.choices[0].logprobs.tokens)
assert "".join(event.choices[0].text for event in client.completions.create(
    model=model, prompt="a", max_tokens=4, temperature=0, stream=True)) == text.choices[0].text

tool = {"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}
called = client.chat.completions.create(model=model, messages=messages, tools=[tool], max_tokens=5)
assert called.usage.prompt_tokens > whole.usage.prompt_tokens, "the policy is told of the tool"
history = messages + [
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "a.py"},
]
assert client.chat.completions.create(model=model, messages=history, tools=[tool], max_tokens=5).choices


def refused(kind, code, **asked):
    try:
        client.chat.completions.create(**({"model": model, "messages": messages} | asked))
    except kind as error:
        assert error.code == code, error
        return error
    raise AssertionError(f"{asked} was not refused")


assert "maximum context length is" in refused(openai.BadRequestError, "context_length_exceeded", max_tokens=10**6).message
assert refused(openai.BadRequestError, "invalid_value", temperature=5).param == "temperature"
refused(openai.NotFoundError, "model_not_found", model="another")
client.api_key = "another-key-of-some-length"
refused(openai.AuthenticationError, "invalid_api_key")
client.api_key = key

with client.chat.completions.create(model=model, messages=messages, max_tokens=4000, temperature=0, stream=True) as stream:
    next(iter(stream))
print("ok")
