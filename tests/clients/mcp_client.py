"""Uses the tools of a harness with the official MCP SDK for Python. Arguments: `http URL KEY`, or `stdio COMMAND…`."""

import asyncio
import sys

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError


def server():
    kind, *rest = sys.argv[1:]
    if kind == "stdio":
        return StdioServerParameters(command=rest[0], args=rest[1:])
    headers = {"Authorization": f"Bearer {rest[1]}"}
    return streamable_http_client(rest[0], http_client=httpx2.AsyncClient(headers=headers, timeout=60))


async def main():
    async with Client(server()) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"bash", "count"}, tools
        assert tools["count"].input_schema["properties"]["text"] == {"type": "string"}
        assert tools["count"].output_schema["required"] == ["words"]

        counted = await client.call_tool("count", {"text": "a b c"})
        assert counted.structured_content == {"words": 3}, counted
        assert not counted.is_error and counted.content[0].text == '{"words":3}', counted

        refused = await client.call_tool("count", {"text": "forbidden"})
        assert refused.is_error and "not this word" in refused.content[0].text, refused
        rewritten = await client.call_tool("count", {"text": "shout"})
        assert rewritten.structured_content == {"words": 2}, rewritten

        told = []

        async def progress(done, total, message):
            told.append(message)

        ran = await client.call_tool("bash", {"command": "sleep 1.2; cat given.txt; echo new > made.txt"}, progress_callback=progress)
        assert ran.content[0].text == "given" and ran.content[1].text == "\nlooked at by a hook", ran
        assert len(told) >= 2, told
        outside = await client.call_tool("bash", {"command": "ls /root/.ssh 2>&1; echo $HOME"})
        assert "No such file" in outside.content[0].text and "/home/agent" in outside.content[0].text, outside

        patch = (await client.read_resource("tandem://workspace.patch")).contents[0].text
        assert "+++ b/made.txt" in patch, patch
        try:
            await client.call_tool("nothing", {})
            raise AssertionError("a tool that is not there was called")
        except MCPError as error:
            assert "no tool `nothing`" in str(error), error

        slow = asyncio.create_task(client.call_tool("bash", {"command": "sleep 600"}))
        await asyncio.sleep(0.5)
        slow.cancel()
        # The session takes one call at a time: this one runs because the other one ended.
        after = await asyncio.wait_for(client.call_tool("bash", {"command": "echo after"}), 60)
        assert after.content[0].text == "after", after
    print("ok")


asyncio.run(main())
