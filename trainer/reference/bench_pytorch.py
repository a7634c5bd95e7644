"""How fast is the work of docs/benchmarks-trainer.md in PyTorch with `transformers`, eager, SDPA, bf16?

    python3 trainer/reference/bench_pytorch.py [NAME ...]

Prints one line of JSON for each piece of work: the median of the timed steps and the peak of
allocated memory. In full training bf16 weights compute and AdamW (fused) updates f32 masters.
Needs a GPU, torch and transformers; weights are random.
"""

import json
import statistics
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

DEVICE = "cuda"


def smollm2():
    return LlamaForCausalLM, LlamaConfig(
        hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, vocab_size=49152, max_position_embeddings=8192, tie_word_embeddings=True)


def qwen_1b5():
    return Qwen2ForCausalLM, Qwen2Config(
        hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12,
        num_key_value_heads=2, vocab_size=151936, max_position_embeddings=4096, tie_word_embeddings=True)


def dense_9b():
    return LlamaForCausalLM, LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=36, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=151936, max_position_embeddings=4096, tie_word_embeddings=False)


def build(shape):
    kind, config = shape()
    torch.manual_seed(0)
    config._attn_implementation = "sdpa"
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(DEVICE):
        model = kind(config)
    torch.set_default_dtype(torch.float32)
    return model


class Lora(torch.nn.Module):
    """y = xW + (alpha / rank) · (xA)B, as peft computes it."""

    def __init__(self, base, rank=16, alpha=32.0):
        super().__init__()
        self.base, self.scale = base, alpha / rank
        make = lambda *shape: torch.nn.Parameter(torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16) * 0.01)
        self.a, self.b = make(rank, base.in_features), make(base.out_features, rank)

    def forward(self, x):
        linear = torch.nn.functional.linear
        return self.base(x) + linear(linear(x, self.a), self.b) * self.scale


def with_lora(model):
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for layer in model.model.layers:
        for part, names in ((layer.self_attn, "qkvo"), (layer.mlp, ("gate", "up", "down"))):
            for name in names:
                setattr(part, f"{name}_proj", Lora(getattr(part, f"{name}_proj")))
    return model


def timed(step, warm, count):
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds


def report(name, tokens, seconds, **more):
    median = statistics.median(seconds)
    print(json.dumps({
        "work": name, "by": f"torch {torch.__version__}", "tokens_per_s": round(tokens / median),
        "median_s": round(median, 5), "fastest_s": round(min(seconds), 5), "runs": len(seconds),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2), **more}), flush=True)


def train(name, shape, batch, length, lora=False, warm=3, count=10):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = build(shape)
    model.config.use_cache = False
    model = with_lora(model) if lora else model
    weights = [p for p in model.parameters() if p.requires_grad]
    masters = [p.detach().float() for p in weights]
    optimizer = torch.optim.AdamW(masters, lr=1e-5, weight_decay=0.0, fused=True)
    ids = torch.randint(0, model.config.vocab_size, (batch, length), device=DEVICE)

    def step():
        model(input_ids=ids, labels=ids).loss.backward()
        for master, weight in zip(masters, weights):
            master.grad = weight.grad.float()
            weight.grad = None
        torch.nn.utils.clip_grad_norm_(masters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch._foreach_copy_([w.data for w in weights], masters)

    report(name, batch * length, timed(step, warm, count), batch=batch, length=length)


def decode(name, shape, sequences, context, new):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = build(shape).eval()
    ids = torch.randint(0, model.config.vocab_size, (sequences, context), device=DEVICE)
    mask = torch.ones_like(ids)

    def run(tokens):
        model.generate(input_ids=ids, attention_mask=mask, do_sample=True, min_new_tokens=tokens,
                       max_new_tokens=tokens, pad_token_id=0, eos_token_id=None)

    with torch.no_grad():
        short = statistics.median(timed(lambda: run(1), 1, 3))
        seconds = [(total - short) / (new - 1) for total in timed(lambda: run(new), 1, 3)]
    report(name, sequences, seconds, sequences=sequences, context=context)


WORK = {
    "train-135m": lambda: train("train-135m", smollm2, 16, 1024),
    "train-1.5b": lambda: train("train-1.5b", qwen_1b5, 8, 2048, count=6),
    "lora-9b": lambda: train("lora-9b", dense_9b, 2, 4096, lora=True, warm=2, count=5),
    "decode-256": lambda: decode("decode-256", smollm2, 256, 512, 65),
    "decode-1": lambda: decode("decode-1", smollm2, 1, 512, 65),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or WORK:
        try:
            WORK[name]()
        except Exception as error:  # one failure must not lose the other figures
            print(json.dumps({"work": name, "error": f"{type(error).__name__}: {error}"}), flush=True)
