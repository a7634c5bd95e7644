#!/usr/bin/env python3
"""What does `transformers` compute for Gemma-3-270M from the same GGUF file?

Writes the reference values of the test `gemma_has_the_logits_of_transformers`:

    python3 trainer/reference/gemma3_logits.py gemma-3-270m-q4_k_m.gguf trainer/reference/gemma3_logits.json

Needs what `smollm2_logits.py` needs, whose parts it uses.
"""

import hashlib
import json
import sys
import tempfile

import numpy as np
import torch
import transformers

from smollm2_logits import dequantise, read_gguf, references, write

PROMPTS = {
    # "<bos>The capital of France is"
    "fact": ["<bos>", "The", "▁capital", "▁of", "▁France", "▁is"],
    # Longer than the window of 512 tokens, so that both kinds of attention are seen.
    "long": ["<bos>"] + ["▁one", "▁two", "▁three", ",", "▁and", "\n"] * 110 + ["▁one", "▁two"],
}


def k_quant(data, shape, kind, start):
    count = int(np.prod(shape))
    if kind == 6:  # Q5_0
        block = np.dtype([("d", "<f2"), ("h", "<u4"), ("q", "u1", 16)])
        blocks = np.frombuffer(data, block, count // 32, start)
        quants = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1)
        fifth = (blocks["h"][:, None] >> np.arange(32, dtype="u4")) & 1
        values = (quants.astype("f4") + 16 * fifth.astype("f4") - 16) * blocks["d"].astype("f4")[:, None]
    elif kind == 12:  # Q4_K
        block = np.dtype([("d", "<f2"), ("m", "<f2"), ("s", "u1", 12), ("q", "u1", 128)])
        blocks = np.frombuffer(data, block, count // 256, start)
        s = blocks["s"].astype("u1")
        scales = np.concatenate([s[:, :4] & 63, (s[:, 8:] & 15) | (s[:, :4] >> 6 << 4)], axis=1).astype("f4")
        minima = np.concatenate([s[:, 4:8] & 63, (s[:, 8:] >> 4) | (s[:, 4:8] >> 6 << 4)], axis=1).astype("f4")
        q = blocks["q"].reshape(-1, 4, 1, 32)
        quants = np.concatenate([q & 15, q >> 4], axis=2).reshape(-1, 8, 32).astype("f4")
        d, m = blocks["d"].astype("f4")[:, None], blocks["m"].astype("f4")[:, None]
        values = (d * scales)[:, :, None] * quants - (m * minima)[:, :, None]
    elif kind == 14:  # Q6_K
        block = np.dtype([("l", "u1", 128), ("h", "u1", 64), ("s", "i1", 16), ("d", "<f2")])
        blocks = np.frombuffer(data, block, count // 256, start)
        low, high = blocks["l"].reshape(-1, 2, 1, 64), blocks["h"].reshape(-1, 2, 1, 32)
        nibbles = np.concatenate([low & 15, low >> 4], axis=2).reshape(-1, 2, 4, 32)
        bits = (high >> np.array([0, 2, 4, 6], dtype="u1")[:, None]) & 3
        quants = ((nibbles | bits << 4).astype("f4") - 32).reshape(-1, 16, 16)
        values = (blocks["d"].astype("f4")[:, None] * blocks["s"].astype("f4"))[:, :, None] * quants
    else:
        return dequantise(data, shape, kind, start)
    return torch.tensor(np.array(values).reshape(shape))


def model_from(path):
    data = open(path, "rb").read()
    metadata, tensors = read_gguf(data)
    of = lambda key: metadata["gemma3." + key]
    layers = of("block_count")
    config = {
        "model_type": "gemma3_text", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": of("embedding_length"),
        "intermediate_size": of("feed_forward_length"), "num_hidden_layers": layers,
        "num_attention_heads": of("attention.head_count"), "num_key_value_heads": of("attention.head_count_kv"),
        "head_dim": of("attention.key_length"), "query_pre_attn_scalar": of("attention.key_length"),
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]), "rope_theta": of("rope.freq_base"),
        "rope_local_base_freq": 10000.0, "rms_norm_eps": 1e-6, "sliding_window": of("attention.sliding_window"),
        "layer_types": [["sliding_attention", "full_attention"][(i + 1) % 6 == 0] for i in range(layers)],
        "max_position_embeddings": of("context_length"), "tie_word_embeddings": True, "bos_token_id": 2,
        "eos_token_id": 1, "pad_token_id": 0,
    }
    with tempfile.TemporaryDirectory() as folder:
        json.dump(config, open(folder + "/config.json", "w"))
        config = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    names = {
        "attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
        "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
        "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    }
    state = {}
    for name, (shape, kind, start) in tensors.items():
        weight = k_quant(data, shape, kind, start)
        if "norm" in name:  # llama.cpp's converter adds the 1 that the model adds.
            weight = weight - 1
        if name == "token_embd.weight":
            state["model.embed_tokens.weight"] = state["lm_head.weight"] = weight
        elif name == "output_norm.weight":
            state["model.norm.weight"] = weight
        else:
            _, layer, part, _ = name.split(".")
            state[f"model.layers.{layer}.{names[part]}.weight"] = weight
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("rotary" in name for name in missing), (missing, unexpected)
    return model, metadata["tokenizer.ggml.tokens"], hashlib.sha256(data).hexdigest()


def main(path, out):
    model, tokens, digest = model_from(path)
    number = {token: id for id, token in enumerate(tokens)}
    prompts = references(model, {name: [number[piece] for piece in pieces] for name, pieces in PROMPTS.items()})
    for prompt in prompts:
        prompt["next_logprobs"] = [round(value, 5) for value in prompt["next_logprobs"]]
    write(out, digest, prompts)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2])
