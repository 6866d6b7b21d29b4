"""The recorder's list of modes is the one that run folders and reports know."""

from gaptrace import vocabulary
from gaptrace_collectors.modes import DEFAULT_MODES, MODES


def test_every_mode_has_its_word_and_the_two_lists_agree():
    assert list(MODES) == list(vocabulary.MODES)
    for mode in MODES.values():
        word = vocabulary.MODES[mode.id]
        assert (mode.compiles, bool(mode.captures)) == (word.compiled, word.captured), mode.id
    assert all(mode in MODES for mode in DEFAULT_MODES)
