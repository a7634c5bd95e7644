#!/usr/bin/env python3
"""Do `transformers` and PEFT compute from our checkpoints what we compute?

    cargo run -p tandem-trainer --example write_checkpoint -- MODEL.gguf OUT [--small]
    python3 trainer/reference/check_checkpoint.py OUT

Needs torch and transformers (and jinja2 for the chat template), and no network. Where `peft` is
not installed, the adapter is folded in by hand from its two files. Ends with 1 when something
differs.
"""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file

TOLERANCE = 1e-3


def load(folder):
    # In the format of the file, then f32: what the weights say, not how a GPU rounds.
    return transformers.AutoModelForCausalLM.from_pretrained(folder).float().eval()


def with_adapter(model, folder):
    try:
        import peft
    except ImportError:
        print("  (peft is not installed: folding the adapter in by hand)")
    else:
        return peft.PeftModel.from_pretrained(model, folder).float().eval()
    config = json.loads((folder / "adapter_config.json").read_text())
    factors = load_file(folder / "adapter_model.safetensors")
    scale = config["lora_alpha"] / config["r"]
    weights = dict(model.named_parameters())
    used = 0
    for name, a in factors.items():
        if ".lora_A." not in name:
            continue
        b = factors[name.replace(".lora_A.", ".lora_B.")]
        target = name.removeprefix("base_model.model.").replace(".lora_A.", ".")
        with torch.no_grad():
            weights[target] += scale * (b.float() @ a.float())
        used += 2
    assert used == len(factors), f"{len(factors) - used} factors belong to no weight"
    return model


def main():
    out = pathlib.Path(sys.argv[1])
    worst = 0.0
    bad = []
    for case in json.loads((out / "expected.json").read_text())["cases"]:
        folder = out / case["folder"]
        name = case["folder"] + (" + " + case["adapter"] if case["adapter"] else "")
        print(name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = load(folder)
        if case["adapter"]:
            model = with_adapter(model, out / case["adapter"])
        for prompt in case["prompts"]:
            text = prompt["text"]
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            if ids != prompt["text_ids"]:
                bad.append(f"{name}: {text!r} is tokenised as {ids}, ours {prompt['text_ids']}")
            chat = tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
            )
            ids = tokenizer(chat, add_special_tokens=False)["input_ids"]
            if ids != prompt["chat_ids"]:
                bad.append(f"{name}: the chat of {text!r} is {ids}, ours {prompt['chat_ids']}")
            with torch.no_grad():
                logits = model(torch.tensor([prompt["chat_ids"]])).logits[0, -1]
            apart = (logits.float() - torch.tensor(prompt["logits"])).abs().max().item()
            worst = max(worst, apart)
            print(f"  {text[:24]!r}: logits differ by at most {apart:.2e}")
            if not apart < TOLERANCE:
                bad.append(f"{name}: logits after {text!r} differ by {apart:.2e}, allowed {TOLERANCE}")
    for line in bad:
        print("DIFFERENT", line)
    print("FAILED" if bad else f"OK: transformers {transformers.__version__}, at most {worst:.2e} apart")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
