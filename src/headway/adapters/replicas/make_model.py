"""Makes a tiny hybrid model with random weights. Runs inside the engine's own venv, never inside Headway.

Usage: ``python make_model.py RECIPE DIRECTORY``. The model is real in everything that costs time and memory
(attention and recurrent layers, paged cache, tokenizer, chat template with tools) and says nothing sensible.
Equal inputs give equal weights. This file must not import Headway: the venv has none.
"""

import contextlib
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VOCABULARY = 8192
CONTEXT = 32768
SEED = 20260
END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (END, START, STOP, "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

TEMPLATE = """\
{%- if tools %}{{- '<|im_start|>system\\n' }}
{%- if messages and messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- 'Tools you may call, one JSON object each:\\n' }}
{%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{%- endfor %}
{{- 'Call one with <tool_call>{"name": ..., "arguments": ...}</tool_call>.<|im_end|>\\n' }}
{%- elif messages and messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in (messages[1:] if messages and messages[0].role == 'system' else messages) %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + (message.content or '') + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""

_TINY_QWEN: dict[str, Any] = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "intermediate_size": 512,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 256,
}
_SMALL_QWEN: dict[str, Any] = _TINY_QWEN | {
    "hidden_size": 512,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "num_experts": 8,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 1024,
}
_TINY_GRANITE: dict[str, Any] = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "layer_types": ["mamba", "mamba", "mamba", "attention"],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 256,
    "shared_intermediate_size": 512,
    "num_local_experts": 0,
    "num_experts_per_tok": 0,
    "mamba_n_heads": 16,
    "mamba_d_head": 32,
    "mamba_d_state": 32,
    "mamba_n_groups": 1,
    "mamba_expand": 2,
    "tie_word_embeddings": False,
}

RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "tiny-qwen3-next": ("Qwen3Next", _TINY_QWEN),
    "small-qwen3-next": ("Qwen3Next", _SMALL_QWEN),
    "tiny-granite-hybrid": ("GraniteMoeHybrid", _TINY_GRANITE),
}


def sources(limit: int = 4_000_000) -> Iterator[str]:
    """Yield the standard library's modules in name order, ``limit`` characters of them in all, on one line each.

    Without runs of white space no token stands for one. Where a JSON grammar allows white space, random weights
    choose among all tokens alike, and with many such tokens a tool call never comes to its end.
    """
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        with contextlib.suppress(UnicodeDecodeError):
            text = " ".join(path.read_text("utf-8").split())
            limit -= len(text)
            yield text
        if limit <= 0:
            return


def tokenizer() -> Any:  # noqa: ANN401  # pragma: no cover - runs where transformers is
    """Train a byte-level BPE tokenizer with a ChatML template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # type: ignore[import-not-found]
    from transformers import PreTrainedTokenizerFast  # type: ignore[import-not-found]

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(sources(), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=STOP,
        pad_token=END,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = TEMPLATE
    return fast


def make(recipe: str, directory: Path) -> int:  # pragma: no cover - runs where transformers is
    """Write model and tokenizer of ``recipe`` to ``directory``; return the number of parameters."""
    import torch  # type: ignore[import-not-found]
    import transformers

    family, settings = RECIPES[recipe]
    words = tokenizer()
    config = getattr(transformers, f"{family}Config")(
        vocab_size=VOCABULARY,
        max_position_embeddings=CONTEXT,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
        **settings,
    )
    torch.manual_seed(SEED)
    model = getattr(transformers, f"{family}ForCausalLM")(config).to(torch.bfloat16)
    model.generation_config = transformers.GenerationConfig(eos_token_id=words.eos_token_id)
    model.save_pretrained(directory)
    words.save_pretrained(directory)
    return int(sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":  # pragma: no cover
    print(make(sys.argv[1], Path(sys.argv[2])))  # noqa: T201 - its answer to the process that started it
