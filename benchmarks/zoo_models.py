"""The models of the zoo: blocks of our own after well-known ones, and, where the
packages are installed, torchvision's, timm's and transformers' by configuration.
"""

import sys

import torch
from torch import library as operators
from torch import nn
from torch.nn import functional


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, x):
        y = functional.relu(self.norm1(self.first(x)))
        return functional.relu(self.norm2(self.second(y)) + x)


class InvertedBottleneck(nn.Module):
    """MobileNet's block, with squeeze and excitation."""

    def __init__(self, width, factor=4):
        super().__init__()
        wide = width * factor
        self.expand = nn.Conv2d(width, wide, 1, bias=False)
        self.depthwise = nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False)
        self.norm = nn.BatchNorm2d(wide)
        self.squeeze = nn.Conv2d(wide, width, 1)
        self.excite = nn.Conv2d(width, wide, 1)
        self.project = nn.Conv2d(wide, width, 1, bias=False)

    def forward(self, x):
        y = functional.silu(self.norm(self.depthwise(functional.silu(self.expand(x)))))
        scale = self.excite(functional.silu(self.squeeze(y.mean((2, 3), keepdim=True))))
        return x + self.project(y * torch.sigmoid(scale))


class SmallUNet(nn.Module):
    """Down and up again with the way across, as diffusion models have it."""

    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 2 * width)
        self.middle = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.last = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x):
        across = functional.silu(self.first(x))
        y = functional.silu(self.norm(self.down(across)))
        y = self.up(y + functional.silu(self.middle(y)))
        return self.last(torch.cat([y, across], 1))


class SqueezeAndExpand(nn.Module):
    """SqueezeNet's block: few channels, then many by two ways, side by side."""

    def __init__(self, width):
        super().__init__()
        self.squeeze = nn.Conv2d(width, width // 4, 1)
        self.expand1 = nn.Conv2d(width // 4, width // 2, 1)
        self.expand3 = nn.Conv2d(width // 4, width // 2, 3, padding=1)

    def forward(self, x):
        y = functional.relu(self.squeeze(x))
        return torch.cat([functional.relu(self.expand1(y)), functional.relu(self.expand3(y))], 1)


class TimedResidual(nn.Module):
    """A diffusion model's block, which is told the step of time."""

    def __init__(self, before, width, told):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, before), nn.GroupNorm(4, width)
        self.first = nn.Conv2d(before, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.told = nn.Linear(told, width)
        self.across = nn.Conv2d(before, width, 1)

    def forward(self, x, told):
        y = self.first(functional.silu(self.norm1(x)))
        y = y + self.told(functional.silu(told))[:, :, None, None]
        y = self.second(functional.silu(self.norm2(y)))
        return y + self.across(x)


class ImageAttention(nn.Module):
    """Every pixel looks at all."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(4, width)
        self.qkv = nn.Conv2d(width, 3 * width, 1)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x):
        rows, width, high, wide = x.shape
        q, k, v = (
            self.qkv(self.norm(x))
            .view(rows, 3, self.heads, width // self.heads, high * wide)
            .transpose(-1, -2)
            .unbind(1)
        )
        y = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(x.shape))


class DiffusionUNet(nn.Module):
    """What denoises a picture at a step of time: that as sines and cosines, two
    sizes of the picture, attention at the smaller one."""

    def __init__(self, width):
        super().__init__()
        told = 4 * width
        self.register_buffer("rates", torch.exp(-torch.arange(width // 2) * (9.2 / (width // 2))))
        self.time = nn.Sequential(
            nn.Linear(2 * (width // 2), told), nn.SiLU(), nn.Linear(told, told)
        )
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = TimedResidual(width, width, told)
        self.smaller = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.before = TimedResidual(2 * width, 2 * width, told)
        self.attention = ImageAttention(2 * width, 4)
        self.after = TimedResidual(2 * width, 2 * width, told)
        self.larger = nn.Conv2d(2 * width, width, 3, padding=1)
        self.up = TimedResidual(2 * width, width, told)
        self.norm = nn.GroupNorm(4, width)
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, step):
        angles = step[:, None] * self.rates
        told = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        across = self.down(self.first(x), told)
        y = self.before(self.smaller(across), told)
        y = self.after(self.attention(y), told)
        y = self.larger(functional.interpolate(y, scale_factor=2.0))
        y = self.up(torch.cat([y, across], 1), told)
        return self.last(functional.silu(self.norm(y)))


class RootMeanSquareNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class LlamaLikeBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = (RootMeanSquareNorm(width) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (
            self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, width))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class SelectiveScan(nn.Module):
    """A state that decays and is written, step by step: Mamba's, unrolled."""

    def __init__(self, width, steps):
        super().__init__()
        self.steps = steps
        self.project = nn.Linear(width, 2 * width)
        self.decay = nn.Parameter(torch.rand(width))

    def forward(self, x):
        value, gate = self.project(x).chunk(2, -1)
        rate = torch.exp(-functional.softplus(gate) * self.decay)
        state, states = torch.zeros_like(value[:, 0]), []
        for step in range(self.steps):
            state = rate[:, step] * state + value[:, step]
            states.append(state)
        return torch.stack(states, 1) * functional.silu(gate)


class ChunkedScan(nn.Module):
    """Mamba 2's: products within a chunk, and a state from chunk to chunk."""

    def __init__(self, width, heads, states, chunk):
        super().__init__()
        self.heads, self.states, self.chunk = heads, states, chunk
        self.project = nn.Linear(width, 2 * width + 2 * states + heads)
        self.decay = nn.Parameter(torch.rand(heads))
        self.skip = nn.Parameter(torch.rand(heads, 1))
        self.norm = RootMeanSquareNorm(width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        rows, length, width = x.shape
        count = length // self.chunk
        value, gate, write, read, rate = self.project(x).split(
            [width, width, self.states, self.states, self.heads], -1
        )
        rate = functional.softplus(rate).view(rows, count, self.chunk, -1)
        value = value.view(rows, count, self.chunk, self.heads, -1)
        write, read = (one.view(rows, count, self.chunk, self.states) for one in (write, read))
        # What is left of a step at another one: exp of sums of what decays.
        sums = (-rate * self.decay).permute(0, 3, 1, 2).cumsum(-1)
        between = sums[..., :, None] - sums[..., None, :]
        past = torch.ones(self.chunk, self.chunk, dtype=torch.bool, device=x.device).tril()
        between = between.masked_fill(~past, -torch.inf).exp()
        given = value * rate[..., None]
        within = torch.einsum("bcls,bcms,bhclm,bcmhp->bclhp", read, write, between, given)
        left = (sums[..., -1:] - sums).exp()
        written = torch.einsum("bcms,bhcm,bcmhp->cbhps", write, left, given)
        state, states = torch.zeros_like(written[0]), []
        for number in range(count):
            states.append(state)
            kept = sums[:, :, number, -1].exp()[..., None, None]
            state = state * kept + written[number]
        before = torch.einsum("bcls,cbhps,bhcl->bclhp", read, torch.stack(states), sums.exp())
        y = (within + before + value * self.skip).reshape(x.shape)
        return self.out(self.norm(y * functional.silu(gate)))


class Experts(nn.Module):
    """A mixture of all experts, weighted."""

    def __init__(self, width, count):
        super().__init__()
        self.router = nn.Linear(width, count)
        self.up = nn.Parameter(torch.randn(count, width, 2 * width) * 0.05)
        self.down = nn.Parameter(torch.randn(count, 2 * width, width) * 0.05)

    def forward(self, x):
        weights = self.router(x).softmax(-1)
        hidden = functional.gelu(torch.einsum("bsw,ewh->bseh", x, self.up))
        each = torch.einsum("bseh,ehw->bsew", hidden, self.down)
        return (each * weights.unsqueeze(-1)).sum(2)


class FirstResult(nn.Module):
    """Of a model that gives several: the first."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(*inputs)[0]


class EncoderAndDecoder(nn.Module):
    """A model of two texts, of transformers: the decoder's result."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, given, so_far):
        return self.model(input_ids=given, decoder_input_ids=so_far)[0]


def own_models(large, batch=None):
    """{name: a function that gives (model, inputs)}"""
    batch = batch or 2
    wide, side, length = (64, 56, 512) if large else (16, 32, 64)
    many = 512 if large else 64

    def image(channels=wide):
        return [torch.randn(batch, channels, side, side)]

    def tokens():
        return [torch.randn(batch, length, many)]

    return {
        "residual convolutions": lambda: (
            nn.Sequential(*[ResidualBlock(wide) for _ in range(2)]),
            image(),
        ),
        "inverted bottlenecks": lambda: (
            nn.Sequential(*[InvertedBottleneck(wide) for _ in range(2)]),
            image(),
        ),
        "small U-Net": lambda: (SmallUNet(wide), image(3)),
        "encoder": lambda: (
            nn.TransformerEncoderLayer(many, 4, 2 * many, batch_first=True, activation="gelu"),
            tokens(),
        ),
        "Llama-like": lambda: (
            nn.Sequential(*[LlamaLikeBlock(many, 4) for _ in range(2)]),
            tokens(),
        ),
        "experts": lambda: (Experts(many, 4), tokens()),
        "LSTM": lambda: (FirstResult(nn.LSTM(many, many, batch_first=True)), tokens()),
        "GRU": lambda: (FirstResult(nn.GRU(many, many, batch_first=True)), tokens()),
        "selective scan": lambda: (SelectiveScan(many, 16), [torch.randn(batch, 16, many)]),
        "chunked scan": lambda: (ChunkedScan(many, 4, 16, length // 4), tokens()),
        "squeeze and expand": lambda: (
            nn.Sequential(*[SqueezeAndExpand(wide) for _ in range(2)]),
            image(),
        ),
        "diffusion U-Net": lambda: (
            DiffusionUNet(wide),
            [*image(3), torch.linspace(3, 700, batch)],
        ),
    }


def _torchvision_models(large, batch=None, more=()):
    torchvision = _import_torchvision()
    side = 224 if large else 64
    names = (
        "resnet18",
        "resnet50",
        "mobilenet_v2",
        "mobilenet_v3_small",
        "efficientnet_b0",
        "convnext_tiny",
        "densenet121",
        "vit_b_16",
        "swin_t",
    )

    def maker(name):
        def make():
            words = {"image_size": side} if name.startswith("vit") else {}
            return (
                torchvision.models.get_model(name, weights=None, **words),
                [torch.randn(batch or 1, 3, side, side)],
            )

        return make

    return {f"torchvision {name}": maker(name) for name in (*names, *more)}


_library = None


def _import_torchvision():
    """Also one that was built for another PyTorch, and whose own operators do
    not load: none of the models here calls one."""
    global _library
    try:
        import torchvision
    except RuntimeError:
        _library = operators.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        for name in [one for one in sys.modules if one.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        import torchvision
    return torchvision


def _timm_models(large, batch=None, more=()):
    _import_torchvision()
    import timm

    side = 224 if large else 64
    names = (
        "mobilenetv3_small_050",
        "vit_tiny_patch16_224",
        "swin_tiny_patch4_window7_224",
        "regnetx_002",
    )

    def maker(name):
        def make():
            words = {"img_size": side} if "vit" in name or "swin" in name else {}
            return (
                timm.create_model(name, pretrained=False, **words),
                [torch.randn(batch or 1, 3, side, side)],
            )

        return make

    return {f"timm {name}": maker(name) for name in (*names, *more)}


def _transformers_models(large, batch=None, more=()):
    import transformers as t

    width, layers, length = (512, 6, 256) if large else (64, 2, 64)
    words = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 2 * width,
        "vocab_size": 500,
        "return_dict": False,
    }
    decoder = {**words, "num_key_value_heads": 2, "use_cache": False}

    def ids():
        return [torch.randint(500, (batch or 2, length))]

    def of(kind, **configuration):
        def make():
            config = getattr(t, kind + "Config")(**configuration)
            return FirstResult(getattr(t, kind + "Model")(config)), ids()

        return make

    def whisper():
        config = t.WhisperConfig(
            d_model=width,
            encoder_layers=layers,
            encoder_attention_heads=4,
            encoder_ffn_dim=2 * width,
            decoder_layers=layers,
            decoder_attention_heads=4,
            decoder_ffn_dim=2 * width,
            num_mel_bins=16,
            max_source_positions=length,
            vocab_size=500,
            return_dict=False,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
        encoder = t.WhisperModel(config).get_encoder()
        return FirstResult(encoder), [torch.randn(batch or 1, 16, 2 * length)]

    t5_words = {
        "d_model": width,
        "d_kv": width // 4,
        "d_ff": 2 * width,
        "num_layers": layers,
        "num_heads": 4,
        "vocab_size": 500,
        "return_dict": False,
        "use_cache": False,
    }

    def t5_encoder():
        return FirstResult(t.T5EncoderModel(t.T5Config(**t5_words))), ids()

    def t5():
        # It reads the parts' results by their names.
        config = t.T5Config(**{**t5_words, "return_dict": True})
        return EncoderAndDecoder(t.T5Model(config)), [*ids(), *ids()]

    return {
        "BERT": of("Bert", **words),
        "GPT-2": of(
            "GPT2",
            n_embd=width,
            n_layer=layers,
            n_head=4,
            vocab_size=500,
            use_cache=False,
            return_dict=False,
        ),
        "Llama": of("Llama", **decoder),
        "Mistral": of("Mistral", **decoder),
        "Qwen2": of("Qwen2", **decoder),
        "Mixtral": of("Mixtral", num_local_experts=4, **decoder),
        "T5 encoder": t5_encoder,
        "T5": t5,
        "Whisper encoder": whisper,
    }


def models(large=False, batch=None, more=()):
    """({name: a function that gives (model, inputs)}, what is absent and why). `more`:
    names as "timm NAME" or "torchvision NAME", for models that the lists do not have."""
    found, absent = own_models(large, batch), []
    for name, maker in (
        ("torchvision", _torchvision_models),
        ("timm", _timm_models),
        ("transformers", _transformers_models),
    ):
        try:
            found.update(maker(large, batch, names_of(name, more)))
        except Exception as error:  # Not installed, or for another version.
            absent.append(f"without {name}: {type(error).__name__}: {error}")
    return found, absent


def names_of(package, names):
    """The names of `package`'s models: "timm resnet26" is its "resnet26"."""
    return [name.removeprefix(package + " ") for name in names if name.startswith(package + " ")]
