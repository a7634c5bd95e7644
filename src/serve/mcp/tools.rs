//! How is a tool of a plugin told as an MCP tool, and its answer as an MCP result?

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tandem_host::harness::{HookPoint, PluginFacts, ToolDefinition, ToolResult, ToolStatus, cut};
use tandem_host::plugin::{Content, ToolOutput};
use tandem_host::policy::{Origin, Piece};

/// Where an input schema may say what the structured answers of its tool look like: the contract has no
/// place of its own for it, and validators pass over keywords that they do not know.
const OUTPUT_SCHEMA: &str = "outputSchema";
/// The tool of the host itself.
pub const BASH: &str = "bash";

/// A tool as MCP tells it.
pub fn definition(tool: &ToolDefinition) -> Value {
    let mut input = tool.input_schema.clone();
    let output = input.as_object_mut().and_then(|schema| schema.remove(OUTPUT_SCHEMA));
    let mut told = json!({"name": tool.name, "description": tool.description, "inputSchema": input});
    // Clients refuse a schema of anything but an object.
    if let Some(output) = output.filter(|output| output["type"] == "object") {
        told["outputSchema"] = output;
    }
    told
}

/// Whether a tool says what its structured answers look like.
pub fn has_output_schema(tool: &ToolDefinition) -> bool {
    tool.input_schema[OUTPUT_SCHEMA]["type"] == "object"
}

/// The host's own tool.
pub fn bash_definition(seconds: u64) -> Value {
    json!({
        "name": BASH,
        "description": format!("Runs a command in a new bash in the repository's folder, for at most {seconds} seconds."),
        "inputSchema": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command to run."}},
            "required": ["command"],
        },
    })
}

/// The result of a call: what the tool answered, with what hooks made of it. `pieces` are what a policy
/// would be shown, `limit` the characters of one text.
pub fn result(
    called: &ToolResult,
    output: Option<&ToolOutput>,
    pieces: &[Piece],
    limit: usize,
    must_be_structured: bool,
) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    let replaced = pieces.first().is_some_and(is_replacement);
    let mut is_error =
        called.status != ToolStatus::Finished || called.exit_code.is_some_and(|code| code != 0);
    let shown = pieces.iter().map(|piece| text(&piece.text));
    let mut content: Vec<Value> = match output.filter(|_| !replaced) {
        None => shown.collect(),
        Some(output) => {
            let own: Vec<Value> = output.content.iter().map(|block| match block {
                Content::Text(block) => text(&cut(block, limit)),
                Content::Image(image) => {
                    json!({"type": "image", "mimeType": image.media_type, "data": STANDARD.encode(&image.data)})
                }
            }).collect();
            // A structured answer is told as text too, for clients that read nothing else.
            let own = if own.is_empty() { vec![text(&called.text)] } else { own };
            own.into_iter().chain(shown.skip(1)).collect()
        }
    };
    // A hook that replaced the text did not want the rest to be read either.
    let structured = output.filter(|_| !replaced).and_then(|output| output.structured.clone());
    let structured = structured.filter(Value::is_object);
    if must_be_structured && structured.is_none() && !is_error {
        is_error = true;
        content.push(text("The tool promises a structured answer and gave none."));
    }
    let mut result = json!({"content": content, "isError": is_error});
    if let Some(structured) = structured {
        result["structuredContent"] = structured;
    }
    result
}

fn is_replacement(piece: &Piece) -> bool {
    matches!(&piece.origin, Origin::Hook { effect, .. } if effect == "replace")
}

/// What of a harness has no counterpart in MCP, a sentence for each, so that nobody expects it.
pub fn not_expressible(facts: &[PluginFacts], bash: bool) -> Vec<String> {
    let why = |point: HookPoint| match point {
        HookPoint::Tools | HookPoint::OnToolCall | HookPoint::OnToolResult => None,
        HookPoint::OnEpisodeStart => Some("the client does not tell its task"),
        HookPoint::OnModelCall => Some("the client calls its model itself"),
        HookPoint::OnFormatError => Some("the client reads its model's output itself"),
        HookPoint::OnLoop => Some("the client sees repetitions itself"),
        HookPoint::OnSubmit | HookPoint::OnChoosePatch => Some("nothing is handed in"),
        HookPoint::OnLimit => Some("the limits are the client's"),
        HookPoint::Observe => Some("only refused calls are told to observers"),
    };
    let mut all = Vec::new();
    for plugin in facts {
        for point in &plugin.points {
            if let Some(why) = why(*point) {
                all.push(format!("`{}` at `{}`: {why}", plugin.name, point.name()));
            }
        }
    }
    let hooks = [HookPoint::OnToolCall, HookPoint::OnToolResult];
    if !bash && facts.iter().any(|plugin| hooks.iter().any(|point| plugin.points.contains(point))) {
        all.push("hooks of tool calls: they see calls of these tools alone, not the client's own; `--bash` offers commands".into());
    }
    all
}

#[cfg(test)]
mod tests {
    use tandem_host::plugin::Image;
    use tandem_host::store::Digest;

    use super::*;

    fn called(status: ToolStatus, text: &str) -> ToolResult {
        ToolResult { status, exit_code: None, text: text.into(), raw_bytes: text.len() as u64 }
    }

    fn hook(effect: &str, text: &str) -> Piece {
        let (plugin, point) = (Digest::of(b"p"), "on-tool-result".to_owned());
        Piece { origin: Origin::Hook { plugin, point, effect: effect.into() }, text: text.into() }
    }

    #[test]
    fn a_result_is_what_the_tool_and_the_hooks_say() {
        let output = ToolOutput {
            content: vec![
                Content::Text("two".into()),
                Content::Image(Image { media_type: "image/png".into(), data: vec![1, 2] }),
            ],
            structured: Some(json!({"n": 2})),
            is_error: false,
        };
        let own = hook("tool-call", "two\n[an image]");
        let check = |pieces: &[Piece], expected: Value| {
            let called = called(ToolStatus::Finished, "two\n[an image]");
            assert_eq!(result(&called, Some(&output), pieces, 100, true), expected);
        };
        let text = |text: &str| json!({"type": "text", "text": text});
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AQI="});
        check(
            std::slice::from_ref(&own),
            json!({"content": [text("two"), image], "isError": false, "structuredContent": {"n": 2}}),
        );
        check(
            &[own, hook("annotate", "\nlook")],
            json!({"content": [text("two"), image, text("\nlook")], "isError": false, "structuredContent": {"n": 2}}),
        );
        let broken = "The tool promises a structured answer and gave none.";
        check(
            &[hook("replace", "hidden")],
            json!({"content": [text("hidden"), text(broken)], "isError": true}),
        );
    }

    #[test]
    fn what_went_wrong_is_an_error_of_the_tool() {
        let piece = Piece { origin: Origin::Host, text: "no".into() };
        let told = result(&called(ToolStatus::Refused, "no"), None, &[piece], 100, true);
        assert_eq!(told, json!({"content": [{"type": "text", "text": "no"}], "isError": true}));
    }

    #[test]
    fn a_schema_of_answers_is_taken_out_of_that_of_arguments() {
        let tool = |schema: Value| ToolDefinition {
            name: "t".into(),
            description: "d".into(),
            input_schema: schema,
        };
        let plain = tool(json!({"type": "object"}));
        assert_eq!(
            definition(&plain),
            json!({"name": "t", "description": "d", "inputSchema": {"type": "object"}})
        );
        let with = tool(json!({"type": "object", "outputSchema": {"type": "object", "required": ["n"]}}));
        assert_eq!(definition(&with)["outputSchema"], json!({"type": "object", "required": ["n"]}));
        assert_eq!(definition(&with)["inputSchema"], json!({"type": "object"}));
        assert!(has_output_schema(&with) && !has_output_schema(&plain));
    }
}
