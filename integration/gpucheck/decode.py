#!/usr/bin/env python3
"""Time of a decode step of a plain decoder (Llama's kind) with random weights.

Reads one JSON object from standard input, writes JSON lines: one "machine", then one
"decode" or "skipped" for each point, as soon as it is known. Exit code 3: no torch, or no
GPU where one is asked for; the last line of standard error says which.

Input:
  decoder    shape, as `spillway budget --model=NAME --gpu=GPU --json` has it in model.decoder
  points     [{"batch": sequences, "context": tokens of each}, ...]
  device     cuda or cpu
  steps      measured steps of a point, at most
  seconds    for the measured steps of a point, at most
  deadline   seconds from the start after which no further point is begun
  bytes      of memory to take at most; 0: what is free

A step embeds one token of each sequence, goes through all layers, appends to the KV cache
at its last place, looks back at all of the context and picks the next token, which the
next step takes. On a GPU it is one CUDA graph where that can be captured. Scheduling,
sampling and detokenizing of an engine are not in it.

Where memory is too small for all layers, fewer are run, and the time of all is drawn as a
straight line through the times of some and of half of them: "layers" says how many ran.
"""

import json
import sys
import time

START = time.monotonic()
RESERVE = 1 << 30  # bytes for workspaces, graphs and what lies between layers
SHARE = 0.95  # of free memory that is taken
STEPS_MIN = 10
CHUNK = 256  # tokens that one part of a split attention looks at


def emit(**fields):
    print(json.dumps(fields), flush=True)


def give_up(why):
    print(why, file=sys.stderr)
    sys.exit(3)


try:
    import torch
    import torch.nn.functional as F
except Exception as e:  # a broken installation raises more than ImportError
    give_up(f"torch is not usable: {type(e).__name__}: {e}")


class Model:
    """Random weights of the first layers of a shape, and a decode step through them."""

    def __init__(self, shape, layers, device, dtype):
        self.heads, self.kv_heads, self.dim = shape["heads"], shape["kv_heads"], shape["head_dim"]
        hidden, inner, vocab = shape["hidden"], shape["inner"], shape["vocab"]
        self.device, self.dtype = device, dtype
        wide = (self.heads + 2 * self.kv_heads) * self.dim

        def weights(rows, columns):
            return torch.empty(rows, columns, device=device, dtype=dtype).normal_(0, columns**-0.5)

        def ones():
            return torch.ones(hidden, device=device, dtype=dtype)

        self.layers = [
            (ones(), weights(wide, hidden), weights(hidden, self.heads * self.dim), ones(), weights(2 * inner, hidden), weights(hidden, inner))
            for _ in range(layers)
        ]
        self.norm, self.table = ones(), weights(vocab, hidden)
        self.head = self.table if shape["tied"] else weights(vocab, hidden)

    def cache(self, batch, context, layers):
        """Keys and values of some layers, filled with random numbers."""
        size = (layers, 2, batch, self.kv_heads, context, self.dim)
        return torch.empty(size, device=self.device, dtype=self.dtype).normal_()

    def step(self, token, cache, layers, attend):
        """One token of each sequence; the answer is the next of each. token: [batch]."""
        batch, context = token.shape[0], cache.shape[4]
        x = self.table[token]
        cos, sin = self.rotation(context - 1)
        for (norm1, qkv, out, norm2, up, down), kv in zip(self.layers[:layers], cache):
            q, k, v = F.linear(rms(x, norm1), qkv).split([self.heads * self.dim] + 2 * [self.kv_heads * self.dim], -1)
            q, k = (rotate(t.view(batch, -1, self.dim), cos, sin) for t in (q, k))
            kv[0][:, :, -1] = k
            kv[1][:, :, -1] = v.view(batch, self.kv_heads, self.dim)
            # The query heads of one KV head are the rows of one query.
            o = attend(q.view(batch, self.kv_heads, -1, self.dim), kv[0], kv[1])
            x = x + F.linear(o.reshape(batch, -1), out)
            gate, value = F.linear(rms(x, norm2), up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * value, down)
        return F.linear(rms(x, self.norm), self.head).argmax(-1)

    def rotation(self, position):
        base = 500000.0
        speed = base ** (-torch.arange(0, self.dim, 2, device=self.device).float() / self.dim)
        angle = position * speed
        return angle.cos().to(self.dtype), angle.sin().to(self.dtype)


def rms(x, weight):
    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def attend_fused(q, k, v):
    """Attention as torch has it. q: [batch, kv_heads, rows, dim], k and v: [batch, kv_heads, context, dim]."""
    return F.scaled_dot_product_attention(q, k, v)


def attend_split(q, k, v):
    """The same in chunks of the context, so that a small batch keeps a whole GPU busy."""
    batch, kv_heads, context, dim = k.shape
    if context % CHUNK:
        return attend_fused(q, k, v)
    parts = (batch, kv_heads, context // CHUNK, CHUNK, dim)
    scores = q.unsqueeze(2) @ k.view(parts).transpose(-1, -2) * dim**-0.5  # [.., parts, rows, CHUNK]
    flat = scores.transpose(2, 3).reshape(batch, kv_heads, q.shape[2], context).float().softmax(-1).to(q.dtype)
    share = flat.view(batch, kv_heads, q.shape[2], context // CHUNK, CHUNK).transpose(2, 3)
    return (share @ v.view(parts)).sum(2)


ATTENTIONS = {"fused": attend_fused, "split": attend_split}


def check_attentions(model):
    """Both attentions answer the same, or the faster one proves nothing."""
    k, v = model.cache(2, 2 * CHUNK, 1)[0]
    q = torch.empty(2, model.kv_heads, model.heads // model.kv_heads, model.dim, device=model.device, dtype=model.dtype).normal_()
    if not torch.allclose(attend_fused(q, k, v).float(), attend_split(q, k, v).float(), atol=0.05, rtol=0.05):
        raise RuntimeError("the two attentions differ")


class Runner:
    """A step of one point, ready to run: as a graph on a GPU, else call by call."""

    def __init__(self, model, cache, layers, attend):
        self.cuda = model.device == "cuda"
        self.graph = None
        token = torch.zeros(cache.shape[2], dtype=torch.long, device=model.device)

        def once():
            token.copy_(model.step(token, cache, layers, attend))

        self.run = once
        if not self.cuda:
            once()
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                once()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                once()
            self.graph, self.run = graph, graph.replay
        except RuntimeError as e:
            print(f"no CUDA graph, step by step instead: {e}", file=sys.stderr)

    def one(self):
        """Milliseconds of a step, from its start on the GPU to its end."""
        if not self.cuda:
            start = time.perf_counter()
            self.run()
            return (time.perf_counter() - start) * 1e3
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        self.run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def times(self, steps, seconds):
        """Sorted times of steps, after a warm-up of a tenth."""
        for _ in range(max(3, steps // 10)):
            self.one()
        found, until = [], time.monotonic() + seconds
        while len(found) < steps and (len(found) < STEPS_MIN or time.monotonic() < until):
            found.append(self.one())
        return sorted(found)


def rank(ordered, share):
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered)) - 1))]


def measure(model, batch, context, layers, ask):
    """Sorted times, the attention that was the faster, and whether they are of a graph."""
    cache = model.cache(batch, context, layers)
    best = None
    for name, attend in ATTENTIONS.items():
        runner = Runner(model, cache, layers, attend)
        quick = rank(runner.times(10, 1), 0.5)
        if best is None or quick < best[0]:
            best = (quick, name, runner)
    return best[2].times(ask["steps"], ask["seconds"]), best[1], best[2].graph is not None


class Sizes:
    """Bytes of a shape's parts."""

    def __init__(self, shape, item):
        width = shape["head_dim"] * 2 * (shape["heads"] + shape["kv_heads"]) + 3 * shape["inner"]
        self.layer = item * shape["hidden"] * width
        self.head = item * shape["vocab"] * shape["hidden"]
        self.tables = self.head * (1 if shape["tied"] else 2)
        self.kv = item * 2 * shape["kv_heads"] * shape["head_dim"]  # of one token in one layer

    def layers_that_fit(self, free, layers, points):
        """How many layers' weights fit beside the KV of the smallest point."""
        smallest = min(p["batch"] * p["context"] for p in points) * self.kv
        return max(0, min(layers, int((free - self.tables) // (self.layer + smallest))))

    def kv_layers_that_fit(self, free, held, point):
        left = free - self.tables - held * self.layer
        return max(0, min(held, int(left // (self.kv * point["batch"] * point["context"]))))


def free_bytes(device):
    if device == "cpu":
        return 4 << 30
    return int(torch.cuda.mem_get_info()[0] * SHARE) - RESERVE


def run_point(model, sizes, shape, point, layers, ask):
    batch, context, whole = point["batch"], point["context"], shape["layers"]
    ordered, attention, graph = measure(model, batch, context, layers, ask)
    median, p99 = rank(ordered, 0.5), rank(ordered, 0.99)
    if layers < whole:
        half = rank(measure(model, batch, context, layers // 2, ask)[0], 0.5)
        scaled = median + (whole - layers) * max(0, median - half) / (layers - layers // 2)
        p99, median = p99 * scaled / median, scaled
    moved = whole * (sizes.layer + sizes.kv * batch * context) + sizes.head
    emit(type="decode", batch=batch, context=context, median_ms=median, p99_ms=p99, steps=len(ordered), layers=layers,
         attention=attention, graph=graph, read_bytes=moved, gb_per_s=moved / median / 1e6)


def main():
    ask = json.load(sys.stdin)
    shape, points, device = ask["decoder"], ask["points"], ask["device"]
    if device == "cuda" and not torch.cuda.is_available():
        give_up(f"torch {torch.__version__} does not see a GPU")
    if device == "cpu":
        torch.set_num_threads(1)  # threads that wait for each other on a busy machine only spin
    dtype = torch.bfloat16
    torch.manual_seed(0)
    free = min(free_bytes(device), ask["bytes"] or sys.maxsize)
    sizes = Sizes(shape, torch.finfo(dtype).bits // 8)
    layers = sizes.layers_that_fit(free, shape["layers"], points)
    emit(type="machine", torch=torch.__version__, device=torch.cuda.get_device_name() if device == "cuda" else "cpu",
         free_bytes=free, layers=layers, of_layers=shape["layers"])
    if layers < min(2, shape["layers"]):
        give_up(f"{free} free bytes of memory do not hold two layers")
    with torch.inference_mode():
        model = Model(shape, layers, device, dtype)
        check_attentions(model)
        for point in points:
            fit = sizes.kv_layers_that_fit(free, layers, point)
            why = ""
            if time.monotonic() - START > ask["deadline"]:
                why = "no time was left"
            elif fit < min(2, shape["layers"]):
                why = "its KV does not fit beside the weights"
            if why:
                emit(type="skipped", why=why, **point)
                continue
            try:
                run_point(model, sizes, shape, point, fit, ask)
            except torch.cuda.OutOfMemoryError as e:
                emit(type="skipped", why=f"memory ran out: {e}", **point)
            if device == "cuda":
                torch.cuda.empty_cache()


main()
