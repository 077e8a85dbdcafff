"""The grammar of writers: its hashes are those that the world calls so, its cases come again, and get smaller."""

from __future__ import annotations

import numpy as np
import pytest
from tests.worlds.folds import ENCODERS, FOLDS
from tests.worlds.hashes import BITS, HASHES, hashed
from tests.worlds.producers import KINDS, Recipe, draw, made, main, shrunk, smaller

#: Published values, or those of the clients' own tests.
VECTORS = [
    ("murmur2", b"21", 0xC5F2F8EC),
    ("murmur3-32", b"hello", 0x248BFA47),
    ("kafkajs-legacy", b"1", 1311020360),
    ("kafkajs-legacy", b"2187", 0x83F10920),
    ("fnv1a", b"a", 0xE40C292C),
    ("fnv1", b"a", 0x050C5D7E),
    ("fnv1a-64", b"a", 0xAF63DC4C8601EC8C),
    ("crc32", b"123456789", 0xCBF43926),
    ("crc32c", b"123456789", 0xE3069283),
    ("crc16", b"123456789", 0x31C3),
    ("adler32", b"Wikipedia", 0x11E60398),
    ("jenkins", b"a", 0xCA2E9442),
    ("xxhash32", b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ("xxhash32", b"abc", 0x32D153FF),
    ("xxhash64", b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ("xxhash64", b"abc", 0x44BC2CF5AD770999),
    ("siphash", bytes(range(15)), 0xA129CA6149BE45E5),
    ("java-string", b"keykeykey2", 42978643 | 1 << 31),
    ("md5-128", b"", 0xD41D8CD98F00B204),
]
#: Of jump consistent hash: key, lane count, lane.
JUMPS = [(1, 1, 0), (42, 57, 43), (0xDEAD10CC, 1, 0), (0xDEAD10CC, 666, 361), (256, 1024, 520)]


@pytest.mark.parametrize(("name", "key", "expected"), VECTORS, ids=lambda value: str(value)[:12])
def test_a_hash_is_the_one_of_its_name(name: str, key: bytes, expected: int) -> None:
    assert hashed(name, [b"other", key])[1] == expected


@pytest.mark.parametrize(("key", "lanes", "expected"), JUMPS)
def test_jump_is_the_published_one(key: int, lanes: int, expected: int) -> None:
    assert FOLDS["jump"](np.array([key], np.uint64), 64, lanes)[0] == expected


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_a_fold_gives_lanes_that_are_there(fold: str, bits: int) -> None:
    some = np.random.default_rng(1).integers(0, 2**bits - 1, 2_000, np.uint64, endpoint=True)
    extremes = np.array([0, 1, 2 ** (bits - 1) - 1, 2 ** (bits - 1), 2**bits - 1], np.uint64)
    for lanes in (2, 7, 64, 499):
        found = FOLDS[fold](np.concatenate([some, extremes]), bits, lanes).astype(np.int64)
        assert found.min() >= 0
        assert found.max() < lanes


def test_no_two_hashes_are_the_same() -> None:
    keys = [f"key-{at}".encode().ljust(8, b"x") for at in range(50)]
    assert len({hashed(name, keys).tobytes() for name in HASHES if name != "java-long"}) == len(HASHES) - 1
    assert all(hashed(name, keys).max() < 2**bits for name, bits in BITS.items() if bits < 64)


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_comes_again_from_its_seed_and_from_its_recipe(kind: str) -> None:
    recipe = draw(5, kind)
    first, again = made(recipe), made(Recipe.of_json(recipe.as_json()))
    assert (first.keys, first.fresh) == (again.keys, again.fresh)
    assert first.table().equals(again.table())
    assert not set(first.fresh) & set(first.keys)
    for number, writer in enumerate(recipe.writers):
        mine = first.origin == number
        assert (
            writer.place([key for key, own in zip(first.keys, mine, strict=True) if own]) == first.lanes[mine]
        ).all()


def test_every_part_of_the_grammar_is_drawn() -> None:
    drawn = [draw(seed) for seed in range(4_000)]
    writers = [writer for recipe in drawn for writer in recipe.writers]
    assert {recipe.kind for recipe in drawn} == set(KINDS)
    assert {writer.hash for writer in writers} == {*HASHES, "md5-whole"}
    assert {writer.fold for writer in writers} == set(FOLDS)
    assert {writer.encoding for writer in writers} == set(ENCODERS)


def test_a_recipe_shrinks_to_what_makes_it_fail() -> None:
    recipe = draw(3, "three writers", rows=4_000, null_share=0.2)
    found = shrunk(recipe, lambda one: any(writer.hash == recipe.writers[1].hash for writer in one.writers))
    assert (len(found.writers), found.lanes, found.null_share) == (1, 2, 0.0)
    assert found.rows < 20
    assert not any(one == recipe for one in smaller(recipe))


def test_a_case_is_shown_by_a_command(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    main(["4", "--out", f"{tmp_path}/case.parquet"])
    truth, command = capsys.readouterr().out.splitlines()
    assert "murmur2 masked of utf8 on 12 lanes (kafka-java)" in truth
    assert command.startswith(f"keylane identify {tmp_path}/case.parquet")
