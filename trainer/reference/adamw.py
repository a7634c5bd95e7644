"""Ten steps of AdamW in f64 as PyTorch defines it, with the global norm clip of `clip_grad_norm_`.

Plain Python, no packages. Writes `adamw.json` beside itself, which the tests of the room
`optimizer` read:

    python3 trainer/reference/adamw.py
"""

import json
import math
import pathlib
import random


def run(seed, learning_rate, weight_decay, max_grad_norm, spread):
    rng = random.Random(seed)
    start = [round(rng.uniform(-1, 1), 4) for _ in range(6)]
    value, first, second = list(start), [0.0] * 6, [0.0] * 6
    gradients, norms, parameters = [], [], []
    for step in range(1, 11):
        gradient = [round(rng.gauss(0, spread), 4) for _ in range(6)]
        norm = math.sqrt(sum(g * g for g in gradient))
        scale = min(1.0, max_grad_norm / (norm + 1e-6))
        for i in range(6):
            g = gradient[i] * scale
            value[i] *= 1 - learning_rate * weight_decay
            first[i] = 0.9 * first[i] + 0.1 * g
            second[i] = 0.999 * second[i] + 0.001 * g * g
            root = math.sqrt(second[i]) / math.sqrt(1 - 0.999**step) + 1e-8
            value[i] -= learning_rate / (1 - 0.9**step) * first[i] / root
        gradients.append(gradient)
        norms.append(norm)
        parameters.append(list(value))
    return {
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "max_grad_norm": max_grad_norm,
        "start": start,
        "gradients": gradients,
        "norms": norms,
        "parameters": parameters,
    }


if __name__ == "__main__":
    runs = [
        run(seed=1, learning_rate=0.01, weight_decay=0.0, max_grad_norm=1.0, spread=0.1),
        run(seed=2, learning_rate=0.003, weight_decay=0.1, max_grad_norm=1.0, spread=3.0),
        run(seed=3, learning_rate=0.05, weight_decay=0.01, max_grad_norm=0.5, spread=1e-3),
    ]
    path = pathlib.Path(__file__).with_name("adamw.json")
    path.write_text(json.dumps(runs, indent=1) + "\n")
    print(f"wrote {path}")
