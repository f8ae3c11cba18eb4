"""The cost of requests to an endpoint, and its bounds.

Every attempt counts, repeated ones too. Before it is sent, its largest possible cost is reserved: a token for each
byte of the request, since tokens of text are at least a byte long, and `longest` tokens for its answer. Once the
endpoint states its count, that replaces the reservation. A refused request (status 4xx) cost no tokens; any
other without a count may have been billed, and stays counted at the most. So no bound is exceeded, whatever fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from pydantic import Field, PositiveInt, model_validator

from epsilometer.core.component import component
from epsilometer.core.errors import UserError

TOKEN = 4  # characters of an English text that make a token, for estimates


class Prices(NamedTuple):
    """Prices per million input tokens, per million output tokens, and per request, in any currency."""

    read: float = 0.0
    written: float = 0.0
    request: float = 0.0


class Caps(NamedTuple):
    """The most requests, tokens (read and written together) and money of a run; None for no bound."""

    requests: int | None = None
    tokens: int | None = None
    cost: float | None = None


_FREE, _BOUNDLESS = Prices(), Caps()


@dataclass(frozen=True)
class Amount:
    """Counts of requests, and of tokens that the endpoint reads and writes."""

    requests: int = 0
    read: int = 0
    written: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.requests + other.requests, self.read + other.read, self.written + other.written)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.requests - other.requests, self.read - other.read, self.written - other.written)

    def cost(self, prices: Prices) -> float:
        """Return the cost in the currency of the prices."""
        return (self.read * prices.read + self.written * prices.written) / 1e6 + self.requests * prices.request

    def beyond(self, caps: Caps, prices: Prices) -> str | None:
        """Return the first exceeded bound, by the name of its setting and value; None if all are kept."""
        for name, amount, most in (
            ("max_requests", self.requests, caps.requests),
            ("max_tokens", self.read + self.written, caps.tokens),
            ("max_cost", self.cost(prices), caps.cost),
        ):
            if most is not None and amount > most:
                return f"{name} ({most:,})"
        return None


@dataclass(frozen=True)
class Forecast:
    """The forecast for some questions: their number, the number already answered, and characters of the others.

    longest: most tokens of an answer.
    """

    questions: int
    stored: int
    characters: int
    longest: int

    def __add__(self, other: Forecast) -> Forecast:
        return Forecast(
            self.questions + other.questions,
            self.stored + other.stored,
            self.characters + other.characters,
            max(self.longest, other.longest),
        )

    @property
    def least(self) -> Amount:
        """Return the amount if each is sent once and gets an empty answer; the tokens read are an estimate."""
        return Amount(self.questions - self.stored, self.characters // TOKEN)

    @property
    def most(self) -> Amount:
        """Return the amount if each is sent once and gets the longest answer; the tokens read are an estimate."""
        return replace(self.least, written=(self.questions - self.stored) * self.longest)

    def said(self, prices: Prices) -> str:
        """Return the forecast in words, without the texts."""
        return (
            f"{self.least.requests:,} requests ({self.stored:,} of {self.questions:,} answers are cached), about "
            f"{self.least.read:,} tokens read (one per {TOKEN} characters), at most {self.most.written:,} written"
            + (f"; cost {self.least.cost(prices):,.2f} to {self.most.cost(prices):,.2f}" if any(prices) else "")
            + "; retries are not counted"
        )


class Dry(UserError):
    """A dry run's result: the requests it would have sent. most: questions of all rounds, if this is the first."""

    def __init__(self, forecast: Forecast, prices: Prices, most: int | None = None) -> None:
        said = f"nothing was sent: {forecast.said(prices)}"
        if most is not None and most > forecast.questions:
            characters = round(most / max(1, forecast.questions) * forecast.characters)
            every = Forecast(most, 0, characters, forecast.longest)
            said += f"; this is the first round, all rounds together are at most {every.said(prices)}"
        super().__init__(said, "EPS-N090")
        self._forecast, self._prices = forecast, prices

    def then(self, send: Callable[[], object]) -> Dry:
        """Return this dry run with the requests that a call would send after it."""
        try:
            send()
        except Dry as further:
            return Dry(self._forecast + further._forecast, self._prices)
        return self

    def in_rounds(self, most: int) -> Dry:
        """Return this dry run as the first round of at most this many questions."""
        return Dry(self._forecast, self._prices, most)


Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@component
class Spends:
    """Settings of a mechanism that asks an endpoint.

    max_requests, max_tokens, max_cost: bounds of a run, repeated attempts included.
    prices:         per million input tokens, per million output tokens, and per request, in any currency.
    dry:            describe the requests, and raise `Dry` instead of sending them.
    workers:        requests at a time.
    """

    max_requests: PositiveInt | None = None
    max_tokens: PositiveInt | None = None
    max_cost: Money | None = None
    prices: tuple[Money, Money, Money] = (0.0, 0.0, 0.0)
    dry: bool = False
    workers: PositiveInt = 8

    @model_validator(mode="after")
    def _has_prices(self) -> Spends:
        if self.max_cost is not None and not any(self.prices):
            raise UserError(
                "max_cost needs prices; set them per million input tokens, per million output tokens, and per request",
                "EPS-N073",
            )
        return self

    def account(self, longest: int) -> Spending:
        """Return an account with nothing spent. longest: most tokens of an answer."""
        return Spending(
            longest, Caps(self.max_requests, self.max_tokens, self.max_cost), Prices(*self.prices), self.dry
        )


class Bill:
    """The amount counted for one attempt: its largest possible cost, until `used` gives a better figure."""

    def __init__(self, most: Amount) -> None:
        self.amount = most

    def used(self, tokens: tuple[int, int] | None, status: int) -> None:
        """Record the tokens read and written by the endpoint's count, None without one; status: of its answer."""
        if tokens is not None:
            self.amount = Amount(1, *tokens)
        elif 400 <= status < 500:
            self.amount = Amount(1)


class Spending:
    """The account of all requests, for several threads. longest: most tokens of an answer; dry: send nothing."""

    def __init__(self, longest: int, caps: Caps = _BOUNDLESS, prices: Prices = _FREE, dry: bool = False) -> None:
        self._longest, self._caps, self._prices, self._dry = longest, caps, prices, dry
        self._spent, self._open = Amount(), 0
        self._changed = threading.Condition()

    @contextmanager
    def attempt(self, size: int) -> Iterator[Bill]:
        """Reserve the most that an attempt of this size in bytes can cost, and count it when it is over.

        If that exceeds a bound, wait for attempts in progress, which may cost less than their reservation. Raises
        UserError if it still does.
        """
        most = Amount(1, size, self._longest)
        with self._changed:
            while (bound := (self._spent + most).beyond(self._caps, self._prices)) is not None:
                if not self._open:
                    raise UserError(
                        f"the next request may exceed {bound}: {self.said}; the answers so far are cached: run again "
                        "with a higher bound to continue",
                        "EPS-N074",
                    )
                self._changed.wait()
            self._spent, self._open = self._spent + most, self._open + 1
        bill = Bill(most)
        try:
            yield bill
        finally:
            with self._changed:
                self._spent, self._open = self._spent - most + bill.amount, self._open - 1
                self._changed.notify_all()

    def check(self, forecast: Forecast) -> None:
        """Raise UserError where the questions exceed a bound whatever the answers, before any of them is sent.

        Raises Dry in a dry run.
        """
        if self._dry:
            raise Dry(forecast, self._prices)
        if (bound := (self._spent + forecast.least).beyond(self._caps, self._prices)) is not None:
            raise UserError(
                f"these texts exceed {bound}, so nothing was sent: {forecast.said(self._prices)}; set fewer trials or "
                "epsilons, or a higher bound",
                "EPS-N075",
            )

    @property
    def said(self) -> str:
        """Return the amount spent so far, in words."""
        cost = f", {self._spent.cost(self._prices):,.4g} in all" if any(self._prices) else ""
        return (
            f"{self._spent.requests:,} requests were sent, at most {self._spent.read:,} tokens read and "
            f"{self._spent.written:,} written{cost}"
        )
