#!/usr/bin/env python3
"""What does `transformers` compute for SmolLM2-135M-Instruct from the same GGUF file?

Writes the reference values of the test `logits_are_those_of_transformers`:

    python3 trainer/reference/smollm2_logits.py SmolLM2-135M-Instruct.Q4_1.gguf \
        trainer/reference/smollm2_logits.json

Needs numpy, torch and transformers, and no network. It reads the file with a
dequantiser of its own, so that a fault in ours cannot hide in both; computes in f32
on the CPU with eager attention; and takes token ids as given, so that tokenisers do
not matter.
"""

import hashlib
import json
import struct
import sys
import tempfile

import numpy as np
import torch
import transformers

PROMPTS = {
    # The chat template's rendering of "What is the capital of France?".
    "chat": [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712,
             8182, 2, 198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198],
    # "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) +"
    "code": [1604, 3987, 46477, 24, 94, 727, 472, 585, 304, 2067, 216, 34, 42, 448, 1003, 304, 472, 1003, 3987,
             46477, 24, 94, 731, 216, 33, 25, 1232],
    # "Die Größe der Stadt Zürich — 1,234 Einwohner? 日本 🦀\n\n  end"
    "text": [42703, 9171, 7466, 34878, 85, 3690, 625, 344, 100, 1777, 7170, 5130, 1841, 216, 33, 28, 34, 35, 36,
             414, 254, 103, 1299, 1362, 47, 17097, 241, 115, 40993, 15107, 116, 218, 8866, 1112],
}
POSITIONS = 4  # the last ones of each prompt
TOP = 20


def read_gguf(data):
    """Metadata and tensors (name -> (shape outermost first, type, bytes))."""
    at = 4

    def number(code):
        nonlocal at
        (value,) = struct.unpack_from("<" + code, data, at)
        at += struct.calcsize("<" + code)
        return value

    def text():
        nonlocal at
        length = number("Q")
        at += length
        return data[at - length : at].decode()

    codes = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, length = number("I"), number("Q")
            return [value(inner) for _ in range(length)]
        return number(codes[kind])

    assert data[:4] == b"GGUF" and number("I") == 3
    tensor_count, value_count = number("Q"), number("Q")
    metadata = {}
    for _ in range(value_count):
        key = text()
        metadata[key] = value(number("I"))
    table = []
    for _ in range(tensor_count):
        name = text()
        shape = [number("Q") for _ in range(number("I"))][::-1]
        table.append((name, shape, number("I"), number("Q")))
    start = -(-at // 32) * 32
    return metadata, {name: (shape, kind, start + offset) for name, shape, kind, offset in table}


def dequantise(data, shape, kind, start):
    count = int(np.prod(shape))
    if kind == 0:  # F32
        values = np.frombuffer(data, "<f4", count, start)
    elif kind == 8:  # Q8_0
        block = np.dtype([("d", "<f2"), ("q", "i1", 32)])
        blocks = np.frombuffer(data, block, count // 32, start)
        values = blocks["d"].astype("f4")[:, None] * blocks["q"].astype("f4")
    elif kind == 3:  # Q4_1
        block = np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)])
        blocks = np.frombuffer(data, block, count // 32, start)
        quants = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1).astype("f4")
        values = quants * blocks["d"].astype("f4")[:, None] + blocks["m"].astype("f4")[:, None]
    else:
        raise SystemExit(f"tensor type {kind} is not in this file")
    return torch.tensor(np.array(values).reshape(shape))


def unpermute(weight, heads):
    """llama.cpp stores the halves of each head interleaved."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def model_from(path):
    data = open(path, "rb").read()
    metadata, tensors = read_gguf(data)
    heads = metadata["llama.attention.head_count"]
    key_heads = metadata["llama.attention.head_count_kv"]
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": metadata["llama.embedding_length"], "intermediate_size": metadata["llama.feed_forward_length"],
        "num_hidden_layers": metadata["llama.block_count"], "num_attention_heads": heads,
        "num_key_value_heads": key_heads, "vocab_size": metadata["llama.vocab_size"],
        "rope_theta": metadata["llama.rope.freq_base"], "rms_norm_eps": 1e-5,
        "max_position_embeddings": metadata["llama.context_length"], "tie_word_embeddings": True,
        "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32",
    }
    # Through a file, since only that way every version of the library accepts `rope_theta`.
    with tempfile.TemporaryDirectory() as folder:
        json.dump(config, open(folder + "/config.json", "w"))
        config = transformers.AutoConfig.from_pretrained(folder)
    theta = (getattr(config, "rope_parameters", None) or {}).get("rope_theta") or config.rope_theta
    assert theta == 100000.0, theta
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()

    names = {
        "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    }
    state = {}
    for name, (shape, kind, start) in tensors.items():
        weight = dequantise(data, shape, kind, start)
        if name == "token_embd.weight":
            state["model.embed_tokens.weight"] = state["lm_head.weight"] = weight
        elif name == "output_norm.weight":
            state["model.norm.weight"] = weight
        else:
            _, layer, part, _ = name.split(".")
            if part == "attn_q":
                weight = unpermute(weight, heads)
            if part == "attn_k":
                weight = unpermute(weight, key_heads)
            state[f"model.layers.{layer}.{names[part]}.weight"] = weight
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("rotary" in name for name in missing), (missing, unexpected)
    return model, hashlib.sha256(data).hexdigest()


@torch.no_grad()
def references(model, prompts):
    """What the model says after each prompt: name -> ids."""
    torch.set_num_threads(8)
    found = []
    for name, ids in prompts.items():
        logits = model(torch.tensor([ids])).logits[0]
        logprobs = torch.log_softmax(logits, dim=-1)
        positions = []
        for position in range(len(ids) - POSITIONS, len(ids)):
            row = logits[position]
            top = torch.topk(row, TOP)
            positions.append({
                "position": position,
                "top": [[int(i), float(v)] for v, i in zip(top.values, top.indices)],
                "mean": float(row.double().mean()),
                "square": float((row.double() ** 2).mean()),
            })
        following = [float(logprobs[i, ids[i + 1]]) for i in range(len(ids) - 1)]
        found.append({"name": name, "ids": ids, "positions": positions, "next_logprobs": following})
        print(name, "most likely next:", positions[-1]["top"][0])
    return found


def write(out, digest, prompts, **layout):
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    with open(out, "w") as file:
        json.dump({"weights_sha256": digest, "versions": versions, "prompts": prompts}, file, **layout)
        file.write("\n")


def main(path, out):
    model, digest = model_from(path)
    write(out, digest, references(model, PROMPTS), indent=1)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2])
