"""A Hugging Face config.json as a model declaration.

Comes in: the file's text, as untrusted as any. Goes out: spec text in canonical format, and what
to tell: keys used, ignored and why, defaults assumed, warnings. Raises Refused where the config
cannot be read faithfully. Not its job: files and streams (cli), or whether the model adds up
(resolve.imported).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kvdsl.importers.class_names import ARCHITECTURES, NO_FORM, TIED_ABOVE
from kvdsl.importers.config import Record, Refused, Section, parsed
from kvdsl.importers.declaration import Declaration, LayerPieces, Length, Value, text_of
from kvdsl.importers.drafts import drafts_of
from kvdsl.importers.families import FAMILIES, UNKNOWN
from kvdsl.importers.family import Family
from kvdsl.importers.keys import REASONS, STRUCTURAL
from kvdsl.importers.quantization import recipe_lines
from kvdsl.importers.stacks import layers_of
from kvdsl.units import counted

TEXT_SECTIONS = ("text_config", "llm_config", "language_config")
TOWERS = ("vision_config", "audio_config", "image_config")


@dataclass(frozen=True, slots=True)
class Imported:
    """`text` is canonical; `ignored` says why of each key; `doubtful` are keys that nobody read
    and that may change a size."""

    text: str
    name: str
    model_type: str
    used: tuple[str, ...]
    ignored: tuple[tuple[str, str], ...]
    assumed: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    doubtful: tuple[str, ...] = ()


def imported(text: str, name: str, source: str) -> Imported:
    """The declaration of a config; `name` is what it is called, `source` where it is from."""
    record = Record()
    top = Section(parsed(text), record)
    config = _text_section(top)
    kind, family = _family(top, config)
    config = _plain(config, family)
    made = _declaration(top, config, family, name, kind, _quoted(source))
    ignored = tuple(_ignored(top, record, family))
    doubtful = _doubtful(ignored, record, family)
    return Imported(
        _canonical(text_of(made)),
        made.name,
        kind,
        tuple(record.used),
        tuple((key, why or "not known here") for key, why in ignored),
        tuple(record.assumed.items()),
        tuple(record.warnings),
        doubtful,
    )


def identifier(text: str) -> str:
    """A name for a declaration out of a file's or repository's name."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:80] or "model"
    return f"model_{name}" if name[0].isdigit() else name


def _quoted(text: str) -> str:
    """What may stand in a string of a spec: one line without quotes."""
    return re.sub(r'["\\\\]|[^\x20-\x7e\u00a0-\ud7ff]', "", text)[:200]


# --- the parts of a config -----------------------------------------------------------------------


def _text_section(top: Section) -> Section:
    """The text model: the whole file, or a section of it that has its width."""
    for key in TEXT_SECTIONS:
        inner = top.section(key) if isinstance(top.values.get(key), dict) else None
        if inner is not None and (inner.has("hidden_size") or not top.has("hidden_size")):
            return inner
    return top


def _family(top: Section, config: Section) -> tuple[str, Family]:
    kind = config.word("model_type") or top.word("model_type")
    top.word("model_type")
    if kind is None:
        _, named = top.raw("architectures")
        said = [w for w in named if isinstance(w, str)] if isinstance(named, list) else []
        kind = next((ARCHITECTURES[w] for w in said if w in ARCHITECTURES), "")
    words = (kind, kind.removesuffix("_text"), f"{kind}_text", top.word("model_type") or "")
    for word in words:
        if word in FAMILIES:
            return kind, FAMILIES[word]
        if word in NO_FORM:
            raise Refused(f"a `{word}` cannot be read faithfully: {NO_FORM[word]}")
    if config.flag("is_encoder_decoder") or top.flag("is_encoder_decoder"):
        raise Refused("it is an encoder with a decoder, not a decoder alone")
    shown = f"`{kind[:60]}`" if kind else "without a model_type"
    top.record.warn(
        f"the config is of a class that is not known here ({shown}): familiar keys are read as "
        "most classes mean them"
    )
    return kind, UNKNOWN


def _plain(config: Section, family: Family) -> Section:
    """With the family's names for common keys, and its defaults, as the common keys."""
    values: dict[str, Any] = dict(config.values)
    for key in family.needed:
        if key not in values:
            raise Refused(f"`{config.path}{key}` is missing, and its class has no rule")
    for other, common in family.aliases.items():
        if values.get(other) is not None and values.get(common) is None:
            values[common] = values[other]
        if other in values:
            config.record.used.setdefault(config.path + other)
    for key in family.one_for_all:
        if isinstance(values.get(key), list):
            values[key] = _one_for_all(key, values[key])
    for key, value in family.defaults.items():
        if values.get(key) is None:
            values[key] = value
            config.record.assume(f"{key} = {value}", "what the class takes without the key")
    return Section(values, config.record, config.path)


def _one_for_all(key: str, items: list[Any]) -> Any:
    """The one value of a list with an item a layer. Raises Refused where layers differ."""
    if not items or any(item != items[0] or type(item) is not type(items[0]) for item in items):
        raise Refused(f"`{key}` differs by layer, which has no faithful form here")
    return items[0]


def _declaration(
    top: Section, config: Section, family: Family, name: str, kind: str, source: str
) -> Declaration:
    hidden = config.needed("hidden_size", "d_model")
    vocab = config.needed("vocab_size")
    values: list[tuple[str, Value]] = [
        ("source", f'"{source}"'),
        ("hidden", hidden),
        ("vocab", vocab),
    ]
    if _tied(top, config, family):
        values.append(("tied_embeddings", True))
    longest = config.count("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    if longest is not None:
        values.append(("max_context", Length(longest)))
    values += _around(config, family, hidden, vocab)
    layers = layers_of(config, family, hidden)
    values += _norms(config, family)
    norms = {layer.norms for layer in layers}
    if len(norms) == 1 and None not in norms:  # said once, for all layers
        values.append(("layer_norms", next(n for n in norms if n is not None)))
        layers = tuple(replace(layer, norms=None) for layer in layers)
    place = config if config.has("quantization_config") else top
    return Declaration(
        name,
        (_doc(kind, layers),),
        tuple(values),
        layers,
        drafts_of(config, family, hidden, layers),
        recipe_lines(place, layers),
    )


def _doc(kind: str, layers: tuple[LayerPieces, ...]) -> str:
    said = f"model_type {re.sub(r'[^A-Za-z0-9_.-]', '_', kind)[:60]}" if kind else "its config.json"
    return f"A model of {counted(len(layers), 'layers')}, read from {said}."


def _tied(top: Section, config: Section, family: Family) -> bool:
    """In a file with sections the key at the top decides; the one in the section means nothing."""
    nested = config.path != ""
    given = top.flag("tie_word_embeddings")
    if nested:
        config.raw("tie_word_embeddings")
    elif given is None:
        given = config.flag("tie_embedding")
    if given is None:
        above = TIED_ABOVE.get(top.word("model_type") or "") if nested else None
        given = family.tied if above is None else above
        word = "true" if given else "false"
        top.record.assume(f"tied_embeddings = {word}", "what the class takes without the key")
    return given


def _around(
    config: Section, family: Family, hidden: int, vocab: int
) -> Iterator[tuple[str, Value]]:
    """What stands before and behind the layers."""
    narrow = config.count("word_embed_proj_dim")
    if narrow is not None and narrow != hidden:
        yield "embedding_dim", narrow
    if family.more_rows:
        rows = vocab + family.more_rows
        yield "embedding_rows", rows
        note = f"{family.more_rows} rows more, by its class"
        config.record.assume(f"embedding_rows = {rows}", note)
    own = config.count("hidden_size_per_layer_input", least=0)
    if own:
        own_rows = config.count("vocab_size_per_layer_input")
        if own_rows is not None and own_rows != vocab:
            raise Refused("`vocab_size_per_layer_input` differs from `vocab_size`: no form here")
        yield "layer_input", own
    else:
        config.raw("vocab_size_per_layer_input")
    if family.positions:
        yield "positions", config.needed(family.positions) + family.positions_more
    if family.head_bias or (family.head_bias_key and config.flag(family.head_bias_key)):
        yield "head_bias", True
    if family.embedding_norm:
        yield "embedding_norm", True
    if family.copies_key:
        copies = config.needed(family.copies_key)
        yield "extra", copies * copies * hidden + copies + 1


def _norms(config: Section, family: Family) -> Iterator[tuple[str, Value]]:
    if not family.norm_weight:
        yield "layer_norms", 0
        yield "final_norm", False
        return
    if family.norm_bias:
        yield "norm_bias", True
    count = family.norms
    if family.norm_rule == "falcon":
        count = 2
        if config.flag("new_decoder_architecture"):
            count = config.count("num_ln_in_parallel_attn") or 2
        elif config.flag("parallel_attn") is not False:
            count = 1
    elif family.norm_rule == "post":
        count = 2 if config.flag("use_post_norm") is False else 4
    elif family.norm_rule == "parallel":
        count = 1 if config.flag("use_parallel_residual") else 2
    if count is not None and not family.norms_of_layers:
        yield "layer_norms", count
    removed = config.flag("_remove_final_layer_norm")
    if config.flag("do_layer_norm_before") is False or removed:
        yield "final_norm", False


# --- what was not read ----------------------------------------------------------------------------


def _ignored(top: Section, record: Record, family: Family) -> Iterator[tuple[str, str]]:
    """Keys that were not read, and why; "" where no reason is known."""
    for key in TOWERS:
        if top.has(key):
            record.used.setdefault(key)
            record.warn(
                f"`{key}` is a tower: its parameters are counted apart, and not from a config; "
                "`tower NAME { parameters = … }` adds them"
            )
    towers = tuple(f"{key}." for key in TOWERS)
    for name in top.unread():
        if name.startswith(towers) or "quantization_config." in name:
            continue
        word = name.rpartition(".")[2]
        known = word in family.ignored
        why = next((why for pattern, why in REASONS if re.fullmatch(pattern, word)), "")
        if known:
            why = "decides no size of its class"
        elif not why and not _says(top, name):
            why = "off or empty"
        yield name, why


def _says(top: Section, name: str) -> bool:
    """Whether a key has a value: null, false, 0 and empty lists switch nothing on."""
    value: Any = top.values
    for word in name.split("."):
        value = value.get(word) if isinstance(value, dict) else None
    return bool(value)


def _doubtful(
    ignored: tuple[tuple[str, str], ...], record: Record, family: Family
) -> tuple[str, ...]:
    """A key that nobody knows may change a size: of an unknown class it is refused."""
    doubtful = tuple(
        name
        for name, why in ignored
        if not why and re.fullmatch(STRUCTURAL, name.rpartition(".")[2])
    )
    if not doubtful:
        return ()
    shown = ", ".join(f"`{name[:60]}`" for name in doubtful[:6])
    more = f" and {len(doubtful) - 6:,} more" if len(doubtful) > 6 else ""
    if family is UNKNOWN:
        raise Refused(f"its class is not known here, and {shown}{more} may change a size")
    record.warn(f"{shown}{more} may change a size, and was not read")
    return doubtful


# --- the text ------------------------------------------------------------------------------------


def _canonical(text: str) -> str:
    from kvdsl.source import SourceFile
    from kvdsl.syntax.formatter import format_module
    from kvdsl.syntax.parser import parse

    module, found = parse(SourceFile("<import>", text))
    if found:
        raise Refused(found[0].headline)
    return format_module(module)
