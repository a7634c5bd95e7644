//! How do llama.cpp's names, row orders and values map to Hugging Face's?

use std::path::Path;

use super::{HostTensor, Metadata, WeightsError};
use crate::model::Family;

/// What is needed to undo llama.cpp's conversion.
pub(super) struct Naming {
    family: Family,
    heads: usize,
    key_value_heads: usize,
}

impl Naming {
    /// Reads the architecture and its head counts.
    pub fn of(metadata: &Metadata) -> Result<Self, WeightsError> {
        let family = Family::of_gguf(metadata)?;
        let key = |key: &str| format!("{}.attention.{key}", family.gguf());
        let heads = metadata.count(&key("head_count"))?;
        let key_value_heads = match metadata.has(&key("head_count_kv")) {
            true => metadata.count(&key("head_count_kv"))?,
            false => heads,
        };
        Ok(Self { family, heads, key_value_heads })
    }

    /// The Hugging Face names of a tensor, and the tensors as they are there: one for each expert, else
    /// one.
    pub fn to_hugging_face(
        &self,
        path: &Path,
        name: &str,
        tensor: HostTensor,
    ) -> Result<Vec<(String, HostTensor)>, WeightsError> {
        match name {
            "token_embd.weight" => return Ok(vec![("model.embed_tokens.weight".into(), tensor)]),
            "output_norm.weight" => return Ok(vec![("model.norm.weight".into(), self.norm(tensor))]),
            "output.weight" => return Ok(vec![("lm_head.weight".into(), tensor)]),
            _ => {}
        }
        let unknown = || WeightsError::UnsupportedModel {
            path: path.to_owned(),
            found: format!("{} with a tensor `{name}`", self.family.gguf()),
            known: Family::KNOWN,
        };
        let (layer, part) =
            name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).ok_or_else(unknown)?;
        let layer: usize = layer.parse().map_err(|_| unknown())?;
        let (part, kind) = part.rsplit_once('.').ok_or_else(unknown)?;
        if !matches!(kind, "weight" | "bias") {
            return Err(unknown());
        }
        let at = |part: &str| format!("model.layers.{layer}.{part}.{kind}");
        let expert = match part {
            "ffn_gate_exps" => Some("gate_proj"),
            "ffn_up_exps" => Some("up_proj"),
            "ffn_down_exps" => Some("down_proj"),
            _ => None,
        };
        if let (Some(part), Family::Qwen3Moe) = (expert, self.family) {
            let [count, rows, columns] = tensor.shape[..] else { return Err(unknown()) };
            let each = tensor.data.chunks_exact((rows * columns).max(1)).take(count).enumerate();
            let named = each.map(|(number, data)| {
                let tensor = HostTensor::new([rows, columns], data.to_vec());
                (at(&format!("mlp.experts.{number}.{part}")), tensor)
            });
            return Ok(named.collect());
        }
        let gemma = self.family == Family::Gemma3;
        let turned = |tensor, heads| match self.family {
            // Only here the converter moves rows.
            Family::Llama => unpermute(path, name, tensor, heads),
            _ => Ok(tensor),
        };
        let (part, tensor) = match part {
            "attn_norm" => ("input_layernorm", self.norm(tensor)),
            "post_attention_norm" if gemma => ("post_attention_layernorm", self.norm(tensor)),
            "ffn_norm" if gemma => ("pre_feedforward_layernorm", self.norm(tensor)),
            "post_ffw_norm" if gemma => ("post_feedforward_layernorm", self.norm(tensor)),
            "ffn_norm" => ("post_attention_layernorm", tensor),
            "attn_q" => ("self_attn.q_proj", turned(tensor, self.heads)?),
            "attn_k" => ("self_attn.k_proj", turned(tensor, self.key_value_heads)?),
            "attn_v" => ("self_attn.v_proj", tensor),
            "attn_output" => ("self_attn.o_proj", tensor),
            "attn_q_norm" => ("self_attn.q_norm", self.norm(tensor)),
            "attn_k_norm" => ("self_attn.k_norm", self.norm(tensor)),
            "ffn_gate" => ("mlp.gate_proj", tensor),
            "ffn_up" => ("mlp.up_proj", tensor),
            "ffn_down" => ("mlp.down_proj", tensor),
            "ffn_gate_inp" => ("mlp.gate", tensor),
            _ => return Err(unknown()),
        };
        Ok(vec![(at(part), tensor)])
    }

    /// The weight of a norm: for Gemma the converter adds the 1 that the model adds.
    fn norm(&self, mut tensor: HostTensor) -> HostTensor {
        if self.family == Family::Gemma3 {
            tensor.data.iter_mut().for_each(|value| *value -= 1.0);
        }
        tensor
    }
}

/// Undoes the row order of llama.cpp's converter.
///
/// llama.cpp rotates neighbouring pairs of a head's rows, Hugging Face pairs row `j`
/// with row `j + d/2`; so the converter moves row `h·d/2 + j` of each head to `2j + h`.
fn unpermute(path: &Path, name: &str, tensor: HostTensor, heads: usize) -> Result<HostTensor, WeightsError> {
    let HostTensor { shape, data } = tensor;
    let (rows, columns) = match shape[..] {
        [rows, columns] => (rows, columns),
        [rows] => (rows, 1),
        _ => {
            let reason = format!("tensor `{name}` has shape {shape:?}, not one or two dimensions");
            return Err(WeightsError::corrupt(path, reason));
        }
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
