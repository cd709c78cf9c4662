"""Whole programs of the zoo, as people run them: decoders with their cache, diffusion
models, graph networks, and steps of training. Their sizes are set here; nothing needs
weights or other packages."""

from collections.abc import Callable

import torch
import zoo_models
from torch import nn
from torch.nn import functional

Made = tuple[nn.Module, list[torch.Tensor]]


class DecoderLayer(nn.Module):
    """Pre-norm attention with rotary positions, grouped keys, and a gated product. With a
    cache, one new token attends to all earlier ones. With a place, its keys and values are
    written into the cache there."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1 = zoo_models.RootMeanSquareNorm(width)
        self.norm2 = zoo_models.RootMeanSquareNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.keys = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        angles: torch.Tensor,
        cache: torch.Tensor | None,
        place: torch.Tensor | None = None,
    ) -> torch.Tensor:
        rows, length, width = x.shape
        y = self.norm1(x)
        q = self.query(y).view(rows, length, self.heads, self.size).transpose(1, 2)
        k, v = self.keys(y).view(rows, length, 2, self.groups, self.size).permute(2, 0, 3, 1, 4)
        q, k = turned(q, angles), turned(k, angles)
        seen = None
        if cache is not None and place is not None:
            cache[:, :, :, place] = torch.stack([k, v])
            (k, v), seen = cache, torch.arange(cache.shape[3], device=x.device) <= place[:, None]
        elif cache is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(cache, (k, v)))
        repeats = self.heads // self.groups
        k, v = (one.repeat_interleave(repeats, 1) for one in (k, v))
        y = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, is_causal=cache is None
        )
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, width))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def turned(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotary positions."""
    a, b = x.chunk(2, -1)
    sine, cosine = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
    return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)


class Decoder(nn.Module):
    """Tokens to logits. `cached`: positions that are there already; 0 for prefill."""

    def __init__(self, width: int, layers: int, words: int, cached: int) -> None:
        super().__init__()
        heads = max(2, width // 64)
        self.cached = cached
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList([DecoderLayer(width, heads, heads // 2) for _ in range(layers)])
        self.norm = zoo_models.RootMeanSquareNorm(width)
        self.words = nn.Linear(width, words, bias=False)
        size = width // heads // 2
        self.register_buffer("rates", 10000.0 ** (-torch.arange(size) / size))

    def forward(self, tokens: torch.Tensor, *cache: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        places = torch.arange(tokens.shape[1], device=x.device) + self.cached
        angles = places[:, None].float() * self.rates.float()
        for number, layer in enumerate(self.layers):
            x = layer(x, angles, cache[number] if cache else None)
        return self.words(self.norm(x))


class DecoderInPlace(Decoder):
    """Writes the new token's keys and values into its caches, at a place that is given."""

    def forward(
        self, tokens: torch.Tensor, place: torch.Tensor, *cache: torch.Tensor
    ) -> torch.Tensor:
        x = self.embedding(tokens)
        angles = place[:, None].float() * self.rates.float()
        for layer, its in zip(self.layers, cache):
            x = layer(x, angles, its, place)
        return self.words(self.norm(x))


class DiffusionTransformerLayer(nn.Module):
    """Attention and a product, scaled and shifted by the step of time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = max(2, width // 64)
        self.told = nn.Linear(width, 6 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        a, b, c, d, e, f = self.told(functional.silu(step))[:, None].chunk(6, -1)
        y = self.norm(x) * (1 + a) + b
        q, k, v = self.qkv(y).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v)
        x = x + c * self.out(y.transpose(1, 2).reshape(x.shape))
        y = self.norm(x) * (1 + d) + e
        return x + f * self.down(functional.gelu(self.up(y), approximate="tanh"))


class DiffusionTransformer(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([DiffusionTransformerLayer(width) for _ in range(layers)])

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, step)
        return x


class PictureDecoder(nn.Module):
    """A small picture to a large one, as autoencoders of diffusion models do."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(4, width) for _ in range(6)])
        self.filters = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(6)])
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for number in range(0, 6, 2):
            y = x
            for norm, filters in zip(
                self.norms[number : number + 2], self.filters[number : number + 2]
            ):
                y = filters(functional.silu(norm(y)))
            x = functional.interpolate(x + y, scale_factor=2.0)
        return self.last(functional.silu(x))


class GraphNetwork(nn.Module):
    """Messages along edges, summed at their ends."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.messages = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(layers)])
        self.updates = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(layers)])

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        begin, end = edges
        for message, update in zip(self.messages, self.updates):
            sent = functional.silu(message(torch.cat([x[begin], x[end]], -1)))
            got = torch.zeros_like(x).index_add(0, end, sent)
            x = x + functional.relu(update(torch.cat([x, got], -1)))
        return x


def programs(large: bool) -> dict[str, Callable[[], Made]]:
    """{name: a function that gives (model, inputs)}. Names that begin with "train" are
    steps of training."""
    width, layers, words = (1024, 8, 32000) if large else (64, 2, 100)
    length, cached = (1024, 1024) if large else (16, 12)

    def tokens(rows: int, count: int) -> torch.Tensor:
        return torch.randint(0, words, (rows, count))

    def decoder(rows: int, past: int, width: int = width, layers: int = layers) -> Made:
        model = Decoder(width, layers, words, past)
        heads = max(2, width // 64)
        cache = (
            [torch.randn(2, rows, heads // 2, past, width // heads) for _ in range(layers)]
            if past
            else []
        )
        return model, [tokens(rows, 1 if past else length), *cache]

    def in_place(rows: int) -> Made:
        model, (one, *cache) = decoder(rows, cached)
        made = DecoderInPlace(width, layers, words, cached)
        made.load_state_dict(model.state_dict())
        return made, [one, torch.tensor([cached // 2]), *cache]

    def encoder(rows: int) -> Made:
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), [
            torch.randn(rows, length // 2, width)
        ]

    def pictures(rows: int) -> Made:
        channels, side = (128, 32) if large else (8, 8)
        return PictureDecoder(channels), [torch.randn(rows, 4, side, side)]

    def graph() -> Made:
        nodes, edges = (20_000, 200_000) if large else (20, 60)
        size = 128 if large else 16
        return GraphNetwork(size, layers // 2), [
            torch.randn(nodes, size),
            torch.randint(0, nodes, (2, edges)),
        ]

    def convolutions(rows: int) -> Made:
        channels, side = (64, 56) if large else (16, 16)
        return nn.Sequential(*[zoo_models.ResidualBlock(channels) for _ in range(4)]), [
            torch.randn(rows, channels, side, side)
        ]

    return {
        "decoder prefill": lambda: decoder(1, 0),
        "decoder decode 1": lambda: decoder(1, cached),
        "decoder in place 1": lambda: in_place(1),
        "decoder decode 8": lambda: decoder(8, cached),
        "wide decoder decode 1": lambda: decoder(1, cached, 4 * width, layers // 2),
        "wide decoder decode 4": lambda: decoder(4, cached, 4 * width, layers // 2),
        "encoder stack": lambda: encoder(4 if large else 2),
        "diffusion transformer": lambda: (
            DiffusionTransformer(width, layers),
            [
                torch.randn(4 if large else 2, length // 4, width),
                torch.randn(4 if large else 2, width),
            ],
        ),
        "picture decoder": lambda: pictures(2),
        "graph network": graph,
        "train decoder": lambda: decoder(2, 0),
        "train encoder": lambda: encoder(4 if large else 2),
        "train convolutions": lambda: convolutions(16 if large else 2),
    }
