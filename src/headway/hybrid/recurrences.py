"""The recurrent layer of each family, from config fields to shapes.

Shapes follow the engines' own state calculators (vLLM ``MambaStateShapeCalculator``, SGLang ``Mamba2StateShape``).
"""

from headway.hybrid.fields import Fields
from headway.hybrid.geometry import Recurrent


def gated_delta_net(fields: Fields) -> Recurrent:
    """Gated DeltaNet: Qwen3-Next, Qwen3.5, Qwen3.6. State (Hv, dv, dk), convolution over q, k and v."""
    value_heads = fields.integer("linear_num_value_heads")
    value_dim = fields.integer("linear_value_head_dim")
    key_dim = fields.integer("linear_key_head_dim")
    keys = fields.integer("linear_num_key_heads") * key_dim
    return Recurrent(
        family="gdn",
        units=value_heads,
        unit_elements=value_dim * key_dim,
        channels=2 * keys + value_heads * value_dim,
        taps=fields.integer("linear_conv_kernel_dim") - 1,
    )


def kimi_delta_attention(fields: Fields) -> Recurrent:
    """Kimi Delta Attention: Kimi-Linear, Kimi-K3, Ling-3.x, GLM-5.3-Flash. State (H, d, d), three convolutions.

    The hub's configs nest the numbers in ``linear_attn_config``; Bailing's and transformers' own are flat.
    """
    inner = fields.group("linear_attn_config") or fields
    heads = inner.integer("num_heads", "linear_num_heads", "num_attention_heads")
    dim = inner.integer("linear_head_dim", "head_dim")
    taps = inner.integer("short_conv_kernel_size", "linear_conv_kernel_dim") - 1
    return Recurrent(family="kda", units=heads, unit_elements=dim * dim, channels=3 * heads * dim, taps=taps)


def lightning_attention(fields: Fields) -> Recurrent:
    """Lightning attention: Ling-2.5/2.6, Ring-linear, MiniMax-01 and M1. State (H, d, d), no convolution."""
    heads = fields.integer("num_attention_heads")
    dim = fields.integer("head_dim") if fields.has("head_dim") else fields.integer("hidden_size") // heads
    return Recurrent(family="lightning", units=heads, unit_elements=dim * dim)


def mamba2(fields: Fields) -> Recurrent:
    """Mamba2: Nemotron-H and 3, Falcon-H1, Granite-4, Bamba, Zamba2. State (H, p, N), convolution over x, B and C."""
    heads = fields.integer("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
    dim = fields.integer("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    state = fields.integer("ssm_state_size", "mamba_d_state")
    return Recurrent(
        family="mamba2",
        units=heads,
        unit_elements=dim * state,
        channels=heads * dim,
        taps=fields.integer("conv_kernel", "mamba_d_conv") - 1,
        groups=fields.integer("n_groups", "mamba_n_groups", "mamba_ngroups"),
        group_channels=2 * state,
    )


def mamba1(fields: Fields) -> Recurrent:
    """Mamba1: Jamba. State (expand * hidden, N), sharded by channel."""
    inner = fields.integer("mamba_expand") * fields.integer("hidden_size")
    return Recurrent(
        family="mamba1",
        units=inner,
        unit_elements=fields.integer("mamba_d_state"),
        channels=inner,
        taps=fields.integer("mamba_d_conv") - 1,
    )


def short_convolution(fields: Fields) -> Recurrent:
    """Gated short convolutions: LFM2. The last inputs are all the state there is."""
    channels = fields.integer("conv_dim", "hidden_size")
    return Recurrent(family="shortconv", channels=channels, taps=fields.integer("conv_L_cache") - 1)
