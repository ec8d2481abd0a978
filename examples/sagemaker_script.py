"""A training script written for SageMaker Profiler. It runs unchanged: tracelake stands in for `smppy`.

tracelake-record --output ./lake -- python sagemaker_script.py
"""

import argparse

import smppy
import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--lr", type=float, default=0.05)
args = parser.parse_args()

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
teacher = torch.randn(256, 10)

SMProf = smppy.SMProfiler.instance()
config = smppy.Config()
config.profiler = {"EnableCuda": "1"}
SMProf.configure(config)
SMProf.start_profiling()

for step in range(args.steps):
    with smppy.annotate("step_" + str(step)):
        with smppy.annotate("Data Loading"):
            inputs = torch.randn(args.batch_size, 256)
            labels = (inputs @ teacher).argmax(dim=1)
            inputs, labels = inputs.to(device), labels.to(device)
        optimizer.zero_grad()
        with smppy.annotate("Forward"):
            outputs = net(inputs)
        with smppy.annotate("Loss"):
            loss = criterion(outputs, labels)
        with smppy.annotate("Backward"):
            loss.backward()
        optimizing = smppy.annotation_begin("Optimizer")
        optimizer.step()
        smppy.annotation_end(optimizing)

SMProf.stop_profiling()
print(f"loss after {args.steps} steps: {loss.item():.4f}")
