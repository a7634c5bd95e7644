//! How do llama.cpp's names and row orders map to Hugging Face's?

use std::path::Path;

use super::{HostTensor, Metadata, WeightsError};

/// What is needed to undo llama.cpp's conversion of a `llama` model.
pub(super) struct Naming {
    heads: usize,
    key_value_heads: usize,
}

impl Naming {
    /// Reads the head counts of a model of the `llama` architecture.
    pub fn of(metadata: &Metadata) -> Result<Self, WeightsError> {
        let architecture = metadata.text("general.architecture")?;
        if architecture != "llama" {
            return Err(WeightsError::UnsupportedModel {
                path: metadata.path().to_owned(),
                found: architecture.into(),
                known: "`llama` models (SmolLM2, Llama without RoPE scaling)",
            });
        }
        let heads = metadata.count("llama.attention.head_count")?;
        let key_value_heads = match metadata.has("llama.attention.head_count_kv") {
            true => metadata.count("llama.attention.head_count_kv")?,
            false => heads,
        };
        Ok(Self { heads, key_value_heads })
    }

    /// The Hugging Face name of a tensor, and the tensor as it is there.
    pub fn to_hugging_face(
        &self,
        path: &Path,
        name: &str,
        tensor: HostTensor,
    ) -> Result<(String, HostTensor), WeightsError> {
        let whole = match name {
            "token_embd.weight" => Some("model.embed_tokens.weight"),
            "output_norm.weight" => Some("model.norm.weight"),
            "output.weight" => Some("lm_head.weight"),
            _ => None,
        };
        if let Some(whole) = whole {
            return Ok((whole.into(), tensor));
        }
        let unknown = || WeightsError::UnsupportedModel {
            path: path.to_owned(),
            found: format!("llama with a tensor `{name}`"),
            known: "`llama` models without biases, experts or RoPE scaling",
        };
        let (layer, part) =
            name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).ok_or_else(unknown)?;
        let layer: usize = layer.parse().map_err(|_| unknown())?;
        let (part, tensor) = match part {
            "attn_norm.weight" => ("input_layernorm", tensor),
            "ffn_norm.weight" => ("post_attention_layernorm", tensor),
            "attn_q.weight" => ("self_attn.q_proj", unpermute(path, name, tensor, self.heads)?),
            "attn_k.weight" => ("self_attn.k_proj", unpermute(path, name, tensor, self.key_value_heads)?),
            "attn_v.weight" => ("self_attn.v_proj", tensor),
            "attn_output.weight" => ("self_attn.o_proj", tensor),
            "ffn_gate.weight" => ("mlp.gate_proj", tensor),
            "ffn_up.weight" => ("mlp.up_proj", tensor),
            "ffn_down.weight" => ("mlp.down_proj", tensor),
            _ => return Err(unknown()),
        };
        Ok((format!("model.layers.{layer}.{part}.weight"), tensor))
    }
}

/// Undoes the row order of llama.cpp's converter.
///
/// llama.cpp rotates neighbouring pairs of a head's rows, Hugging Face pairs row `j`
/// with row `j + d/2`; so the converter moves row `h·d/2 + j` of each head to `2j + h`.
fn unpermute(path: &Path, name: &str, tensor: HostTensor, heads: usize) -> Result<HostTensor, WeightsError> {
    let HostTensor { shape, data } = tensor;
    let [rows, columns] = shape[..] else {
        return Err(WeightsError::corrupt(
            path,
            format!("tensor `{name}` has shape {shape:?}, not two dimensions"),
        ));
    };
    if heads == 0 || rows % (2 * heads) != 0 {
        let reason = format!("tensor `{name}` has {rows} rows, which do not divide into {heads} heads");
        return Err(WeightsError::corrupt(path, reason));
    }
    let half = rows / heads / 2;
    let mut out = Vec::with_capacity(data.len());
    for head in 0..heads {
        for side in 0..2 {
            for pair in 0..half {
                let row = head * 2 * half + 2 * pair + side;
                out.extend_from_slice(&data[row * columns..(row + 1) * columns]);
            }
        }
    }
    Ok(HostTensor { shape, data: out })
}
