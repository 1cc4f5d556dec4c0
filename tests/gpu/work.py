"""What a pod of the proof does: tells what it sees, computes on it for some seconds, tells when it was there."""

import json
import os
import time

report = {"began": time.time(), "visible": os.environ.get("NVIDIA_VISIBLE_DEVICES")}
until = report["began"] + float(os.environ.get("HOLD_SECONDS", "0"))
is_real = os.environ["REAL_GPU"] == "1"
print(json.dumps(report), flush=True)

if is_real:
    import torch

    report["torch"] = torch.__version__
    report["devices"] = torch.cuda.device_count()
if is_real and report["devices"]:
    report["name"] = torch.cuda.get_device_name(0)
    small = torch.randn(512, 512, dtype=torch.float64)
    on_device = (small.cuda() @ small.cuda()).cpu()
    report["error"] = float((on_device - small @ small).abs().max())
    size, rounds = 8192, 10
    left, right = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        left @ right
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    for _ in range(rounds):
        left @ right
    ended.record()
    torch.cuda.synchronize()
    report["tflops"] = round(2 * size**3 * rounds / (began.elapsed_time(ended) / 1000) / 1e12)

beats = 0
while time.time() < until:
    if is_real and report["devices"]:
        left @ right
        torch.cuda.synchronize()
    time.sleep(0.1)
    beats += 1
    if beats % 10 == 0:
        print("beat", beats // 10, flush=True)

report["ended"] = time.time()
print(json.dumps(report), flush=True)
