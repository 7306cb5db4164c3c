"""Traces as Parquet, for large ones: a row for each trajectory, its turns and their actions as lists of structs.

The header is in the file's metadata under ``headway-trace``. What has no fixed shape (commands, added messages,
answers) is JSON text. Needs the extra ``headway[parquet]``.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import inspect

from headway.errors import ConfigError
from headway.traces.format import Recorded, Trace

_KEY = b"headway-trace"
_GROUP = 20_000
"""Turns that are written together, and about what a reader holds at once."""


def head(file: Path) -> Trace:
    """Read the header. Raises: ``ConfigError``."""
    pq = _pyarrow()[1]
    try:
        kept = (pq.read_metadata(file).metadata or {}).get(_KEY)
    except FileNotFoundError as error:
        raise ConfigError("can't be read: there is no such file", where=str(file)) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"is no Parquet file: {error}", where=str(file)) from error
    if kept is None:
        raise ConfigError("is a Parquet file, but not a Headway trace", where=str(file))
    try:
        return msgspec.json.decode(kept, type=Trace)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"its header can't be read: {error}", where=str(file)) from error


def trajectories(file: Path) -> Iterator[tuple[str, Recorded]]:
    """Read the trajectories, each with where it stands. Raises: ``ConfigError``."""
    pq = _pyarrow()[1]
    row = 0
    with pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches(batch_size=64):
            for values in batch.to_pylist():
                row += 1
                where = f"{file}, row {row}"
                try:
                    yield where, msgspec.convert(_unpacked(values, _INFO), Recorded, strict=False)
                except msgspec.MsgspecError as error:
                    raise ConfigError(f"is no trajectory: {error}", where=where) from error


def write(file: Path, trajectories: Iterable[Recorded], header: Callable[[], Trace]) -> None:
    """Write a file; ``header`` is asked for when all trajectories are known. Raises: ``ConfigError``."""
    pa, pq = _pyarrow()
    schema = pa.schema([(name, _column(pa, info)) for name, info in _fields(_INFO)])
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        rows: list[Any] = []
        turns = 0
        for trajectory in trajectories:
            rows.append(_packed(msgspec.to_builtins(trajectory), _INFO))
            turns += max(1, len(trajectory.turns))
            if turns >= _GROUP:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows, turns = [], 0
        writer.write_table(pa.Table.from_pylist(rows, schema))
        writer.add_key_value_metadata({_KEY: msgspec.json.encode(header())})


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        hint = "pip install 'headway[parquet]', or name it .jsonl"
        raise ConfigError("Parquet files need pyarrow", hint=hint) from error
    return pa, pq


# -- the columns follow from the format's own types ---------------------------------------------------------------


def _plain(info: inspect.Type) -> inspect.Type:
    """The type of a field without its None."""
    if isinstance(info, inspect.UnionType):
        return next(one for one in info.types if not isinstance(one, inspect.NoneType))
    return info


def _fields(info: inspect.StructType) -> Iterator[tuple[str, inspect.Type]]:
    return ((field.name, _plain(field.type)) for field in info.fields)


_INFO = cast("inspect.StructType", inspect.type_info(Recorded))


def _column(pa: Any, info: inspect.Type) -> Any:  # noqa: ANN401 - pyarrow has no types
    match info:
        case inspect.StructType():
            return pa.struct([(name, _column(pa, kind)) for name, kind in _fields(info)])
        case inspect.VarTupleType():
            return pa.list_(_column(pa, info.item_type))
        case inspect.IntType():
            return pa.int64()
        case inspect.FloatType():
            return pa.float64()
        case inspect.BoolType():
            return pa.bool_()
        case _:
            return pa.string()


def _packed(value: Any, info: inspect.Type) -> Any:  # noqa: ANN401 - JSON
    """JSON values as Parquet holds them: what has no fixed shape becomes text."""
    match info:
        case inspect.StructType():
            return {name: _packed(value[name], kind) for name, kind in _fields(info) if name in value}
        case inspect.VarTupleType():
            return [_packed(item, info.item_type) for item in value]
        case inspect.AnyType() | inspect.DictType():
            return msgspec.json.encode(value).decode()
        case _:
            return value


def _unpacked(value: Any, info: inspect.Type) -> Any:  # noqa: ANN401 - JSON
    """The other way round; what is null is left out."""
    match info:
        case inspect.StructType():
            present = ((name, kind) for name, kind in _fields(info) if value.get(name) is not None)
            return {name: _unpacked(value[name], kind) for name, kind in present}
        case inspect.VarTupleType():
            return [_unpacked(item, info.item_type) for item in value]
        case inspect.AnyType() | inspect.DictType():
            return msgspec.json.decode(value)
        case _:
            return value
