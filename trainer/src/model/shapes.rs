//! Which weights does a policy of a given shape have?

use super::ModelConfig;
use super::causal_lm::{EMBEDDING, FINAL_NORM, HEAD};
use super::feed_forward::expert_prefix;
use super::layer::prefix;

/// A weight's name and shape.
type Named = (String, Vec<usize>);

impl ModelConfig {
    /// Names and shapes of the policy's weights, as Hugging Face has them.
    pub fn shapes(&self) -> Vec<Named> {
        let hidden = self.hidden_size;
        let mut shapes = vec![(EMBEDDING.to_string(), vec![self.vocab_size, hidden])];
        for layer in 0..self.num_hidden_layers {
            let prefix = prefix(layer);
            let norms: Vec<Named> = self
                .norms_of_layer()
                .iter()
                .map(|(name, width)| (format!("{prefix}.{name}"), vec![*width]))
                .collect();
            let (first, others) = norms.split_at(1);
            shapes.extend_from_slice(first);
            self.attention_shapes(&mut shapes, &prefix);
            shapes.extend_from_slice(others);
            match self.experts_of(layer) {
                None => self.network_shapes(
                    &mut shapes,
                    &format!("{prefix}.mlp"),
                    self.intermediate_size,
                    self.bias.mlp,
                ),
                Some(experts) => {
                    shapes.push((format!("{prefix}.mlp.gate.weight"), vec![experts.count, hidden]));
                    for number in 0..experts.count {
                        let prefix = expert_prefix(&prefix, number);
                        self.network_shapes(&mut shapes, &prefix, experts.intermediate_size, false);
                    }
                }
            }
        }
        shapes.push((FINAL_NORM.to_string(), vec![hidden]));
        if !self.tie_word_embeddings {
            shapes.push((HEAD.to_string(), vec![self.vocab_size, hidden]));
        }
        shapes
    }

    fn attention_shapes(&self, shapes: &mut Vec<Named>, prefix: &str) {
        let query = self.num_attention_heads * self.head_dim;
        let key = self.num_key_value_heads * self.head_dim;
        for (name, rows) in [("q", query), ("k", key), ("v", key)] {
            linear(
                shapes,
                format!("{prefix}.self_attn.{name}_proj"),
                [rows, self.hidden_size],
                self.bias.qkv,
            );
        }
        linear(shapes, format!("{prefix}.self_attn.o_proj"), [self.hidden_size, query], self.bias.output);
    }

    fn network_shapes(&self, shapes: &mut Vec<Named>, prefix: &str, inner: usize, bias: bool) {
        for name in ["gate", "up"] {
            linear(shapes, format!("{prefix}.{name}_proj"), [inner, self.hidden_size], bias);
        }
        linear(shapes, format!("{prefix}.down_proj"), [self.hidden_size, inner], bias);
    }
}

fn linear(shapes: &mut Vec<Named>, name: String, [rows, columns]: [usize; 2], bias: bool) {
    shapes.push((format!("{name}.weight"), vec![rows, columns]));
    if bias {
        shapes.push((format!("{name}.bias"), vec![rows]));
    }
}
