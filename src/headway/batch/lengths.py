"""How long prompts are before an engine has counted them."""

from dataclasses import dataclass

from headway.core.units import Tokens


@dataclass(slots=True)
class TokenGuess:
    """Bytes times a ratio that is learnt from what engines count; shared by all of a batch."""

    counted: int = 0
    measured: int = 0

    def tokens(self, size: int) -> Tokens:
        """Tokens in ``size`` bytes of JSON; a quarter of them until something was counted."""
        return Tokens(size * self.counted // self.measured if self.measured else size // 4)

    def learn(self, size: int, tokens: int) -> None:
        """An engine counted ``tokens`` in ``size`` bytes."""
        self.measured += size
        self.counted += tokens


@dataclass(slots=True)
class PromptLength:
    """One stream's prompt, of which only what it grew by since the last turn has to be guessed."""

    guess: TokenGuess
    size: int = 0
    total: int = 0

    def expected(self, size: int) -> Tokens:
        """Tokens of the next prompt, ``size`` bytes with its history."""
        if size < self.size:
            return self.guess.tokens(size)
        return Tokens(self.guess.tokens(size - self.size) + self.total)

    def learn(self, size: int, prompt: int, output: int) -> None:
        """A turn with a prompt of ``size`` bytes took so many tokens."""
        self.guess.learn(size, prompt)
        self.size, self.total = size, prompt + output
