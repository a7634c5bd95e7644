#!/usr/bin/env python3
"""Writes what transformers computes for a tiny model of each architecture: logits, gradients, and the
weights after ten steps of AdamW.

    python3 trainer/reference/architectures.py trainer/reference/architectures.json

`trainer/src/model/architectures.rs` compares. The weights of both sides come from the formula of `values`
below, so no file of weights is kept. Made with torch 2.11.0 and transformers 5.17.0 on a CPU; with other
versions the last digits differ.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import transformers
from safetensors.torch import save_file

IDS = [[5, 17, 3, 42, 8, 8, 31, 2, 19], [11, 4, 4, 29, 37, 1, 0, 46, 23]]
POSITIONS = [0, 4, 8]
STEPS = 10
SAMPLES = 4

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 50, "rope_theta": 10000.0, "rms_norm_eps": 1e-5,
    # The gradient of the embedding of `pad_token_id` is left out there, so no sequence has it.
    "max_position_embeddings": 64, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 49, "hidden_act": "silu",
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
CONFIGS = {
    "llama with biases": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "llama with tied embeddings": {"model_type": "llama", "tie_word_embeddings": True},
    "llama3 rope": {"model_type": "llama", "rope_scaling": LLAMA3},
    "linear rope": {"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "yarn rope": {"model_type": "llama", "rope_scaling": YARN},
    "qwen2": {"model_type": "qwen2", "head_dim": 6},
    "qwen2 with a window": {"model_type": "qwen2", "head_dim": 6, "use_sliding_window": True,
                            "sliding_window": 3, "max_window_layers": 1},
    "qwen3": {"model_type": "qwen3"},
    "qwen3 experts": {"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2,
                      "moe_intermediate_size": 16, "norm_topk_prob": True, "decoder_sparse_step": 1,
                      "mlp_only_layers": [1]},
    "gemma3": {"model_type": "gemma3_text", "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 3,
               "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
               "query_pre_attn_scalar": 16, "final_logit_softcapping": 10.0,
               "rope_local_base_freq": 1000.0, "tie_word_embeddings": True,
               "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
}


def values(name, shape, gemma):
    """Pseudo-random values that depend on the name of a tensor alone: FNV-1a, then SplitMix64."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with numpy.errstate(over="ignore"):
        state = numpy.uint64(seed) + numpy.arange(1, int(numpy.prod(shape)) + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        state = state ^ (state >> numpy.uint64(31))
    unit = (state >> numpy.uint64(40)).astype(numpy.float64) / 2**24 * 2 - 1
    if name.endswith("norm.weight"):
        unit = unit * 0.25 + (0.0 if gemma else 1.0)
    else:
        unit = unit * 0.5
    return torch.from_numpy(unit.astype(numpy.float32).reshape(shape))


def shapes(config):
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    query = config["num_attention_heads"] * config["head_dim"]
    key = config["num_key_value_heads"] * config["head_dim"]
    kind = config["model_type"]
    all = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden]}
    if not config["tie_word_embeddings"]:
        all["lm_head.weight"] = [config["vocab_size"], hidden]
    for layer in range(config["num_hidden_layers"]):
        def add(name, shape, bias=False):
            all[f"model.layers.{layer}.{name}.weight"] = shape
            if bias:
                all[f"model.layers.{layer}.{name}.bias"] = shape[:1]
        bias = config.get("attention_bias", False)
        qkv = bias or kind == "qwen2"
        add("self_attn.q_proj", [query, hidden], qkv)
        add("self_attn.k_proj", [key, hidden], qkv)
        add("self_attn.v_proj", [key, hidden], qkv)
        add("self_attn.o_proj", [hidden, query], bias)
        def network(prefix, inner, bias):
            add(f"{prefix}gate_proj", [inner, hidden], bias)
            add(f"{prefix}up_proj", [inner, hidden], bias)
            add(f"{prefix}down_proj", [hidden, inner], bias)
        if kind == "qwen3_moe" and layer not in config["mlp_only_layers"]:
            add("mlp.gate", [config["num_experts"], hidden])
            for expert in range(config["num_experts"]):
                network(f"mlp.experts.{expert}.", config["moe_intermediate_size"], False)
        else:
            network("mlp.", inner, config.get("mlp_bias", False))
        add("input_layernorm", [hidden])
        add("post_attention_layernorm", [hidden])
        if kind == "gemma3_text":
            add("pre_feedforward_layernorm", [hidden])
            add("post_feedforward_layernorm", [hidden])
        if kind in ("qwen3", "qwen3_moe", "gemma3_text"):
            add("self_attn.q_norm", [config["head_dim"]])
            add("self_attn.k_norm", [config["head_dim"]])
    return all


def summary(tensor):
    flat = tensor.detach().double().flatten()
    return {"norm": float(flat.norm()), "first": [float(value) for value in flat[:SAMPLES]]}


def case(name, config):
    config = {**BASE, **config}
    gemma = config["model_type"] == "gemma3_text"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config))
        weights = {tensor: values(tensor, shape, gemma) for tensor, shape in shapes(config).items()}
        save_file(weights, Path(folder, "model.safetensors"), metadata={"format": "pt"})
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        assert not info["missing_keys"] and not info["unexpected_keys"], (name, info)
    model.eval()
    ids = torch.tensor(IDS)
    logits = model(ids).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    known = set(shapes(config))
    gradients = {n: summary(p.grad) for n, p in model.named_parameters() if n in known}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        out = model(ids).logits
        step = torch.nn.functional.cross_entropy(out[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        step.backward()
        optimizer.step()
        losses.append(float(step))
    after = {n: summary(p) for n, p in model.named_parameters() if n in known}
    chosen = logits.detach()[:, POSITIONS].double().flatten()
    return {
        "name": name, "config": config, "logits": [float(value) for value in chosen], "loss": float(loss),
        "losses": losses, "gradients": gradients, "after": after,
    }


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.8g}")
    if isinstance(value, list):
        return [rounded(one) for one in value]
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return value


def main():
    torch.manual_seed(0)
    cases = [case(name, config) for name, config in CONFIGS.items()]
    document = {"ids": IDS, "positions": POSITIONS, "steps": STEPS, "cases": rounded(cases)}
    document["versions"] = {"torch": torch.__version__, "transformers": transformers.__version__}
    Path(sys.argv[1]).write_text(json.dumps(document) + "\n")
    print("wrote", sys.argv[1], Path(sys.argv[1]).stat().st_size, "bytes")


main()
