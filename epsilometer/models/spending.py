"""Cost of requests to an endpoint, with limits.

Every attempt counts, including retries. Before an attempt is sent, its maximum cost is reserved. The reservation is one
token per byte of the request (a token has at least one byte), plus `longest` tokens for the answer. When the endpoint
states token counts, they replace the reservation. A refused request (status 4xx) costs no tokens. Any other attempt
without token counts may have been billed, so its maximum cost remains counted. So no limit is exceeded, even if
requests fail.
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

TOKEN = 4  # average characters per token of English text, for estimates


class Prices(NamedTuple):
    """Prices per million input tokens, per million output tokens, and per request, in any currency."""

    read: float = 0.0
    written: float = 0.0
    request: float = 0.0


class Caps(NamedTuple):
    """Limits of a run: on requests, on tokens (read plus written) and on money. None: no limit."""

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
        """Return the name and value of the first limit that is exceeded; None if no limit is exceeded."""
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
    """A cost forecast for some questions.

    questions:  number of questions.
    stored:     number of questions with a cached answer.
    characters: total length of the other questions.
    longest:    most tokens per answer.
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
        """Return the amount if each question is sent once and gets an empty answer. Tokens read are an estimate."""
        return Amount(self.questions - self.stored, self.characters // TOKEN)

    @property
    def most(self) -> Amount:
        """Return the amount if each question is sent once and gets the longest answer. Tokens read are an estimate."""
        return replace(self.least, written=(self.questions - self.stored) * self.longest)

    def said(self, prices: Prices) -> str:
        """Return the forecast in words."""
        return (
            f"{self.least.requests:,} requests ({self.stored:,} of {self.questions:,} answers are cached), about "
            f"{self.least.read:,} tokens read (one per {TOKEN} characters), at most {self.most.written:,} written"
            + (f"; cost {self.least.cost(prices):,.2f} to {self.most.cost(prices):,.2f}" if any(prices) else "")
            + "; retries are not counted"
        )


class Dry(UserError):
    """The result of a dry run: a forecast of its requests.

    most: the largest number of questions in all rounds, if the forecast covers only the first round. None: the forecast
    covers all rounds.
    """

    def __init__(self, forecast: Forecast, prices: Prices, most: int | None = None) -> None:
        said = f"nothing was sent: {forecast.said(prices)}"
        if most is not None and most > forecast.questions:
            characters = round(most / max(1, forecast.questions) * forecast.characters)
            every = Forecast(most, 0, characters, forecast.longest)
            said += f"; this is the first round, all rounds together are at most {every.said(prices)}"
        super().__init__(said, "EPS-N090")
        self._forecast, self._prices = forecast, prices

    def then(self, send: Callable[[], object]) -> Dry:
        """Return this dry run plus the requests that `send` would send."""
        try:
            send()
        except Dry as further:
            return Dry(self._forecast + further._forecast, self._prices)
        return self

    def in_rounds(self, most: int) -> Dry:
        """Return this dry run as the first of several rounds. most: the largest number of questions in all rounds."""
        return Dry(self._forecast, self._prices, most)


Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@component
class Spends:
    """Settings of a mechanism that asks an endpoint.

    max_requests, max_tokens, max_cost: limits of a run, including retries; None: no limit.
    prices:         per million input tokens, per million output tokens, and per request, in any currency.
    dry:            True to raise `Dry`, which describes the requests, instead of sending them.
    workers:        number of concurrent requests.
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
        """Return a new account with these limits. longest: most tokens per answer."""
        return Spending(
            longest, Caps(self.max_requests, self.max_tokens, self.max_cost), Prices(*self.prices), self.dry
        )


class Bill:
    """The amount counted for one attempt: its maximum cost, until `used` sets the actual cost."""

    def __init__(self, most: Amount) -> None:
        self.amount = most

    def used(self, tokens: tuple[int, int] | None, status: int) -> None:
        """Record the actual cost. tokens: read and written; None if not stated. status: HTTP status of the answer."""
        if tokens is not None:
            self.amount = Amount(1, *tokens)
        elif 400 <= status < 500:
            self.amount = Amount(1)


class Spending:
    """A thread-safe account of all requests. longest: most tokens per answer. dry: True to send nothing."""

    def __init__(self, longest: int, caps: Caps = _BOUNDLESS, prices: Prices = _FREE, dry: bool = False) -> None:
        self._longest, self._caps, self._prices, self._dry = longest, caps, prices, dry
        self._spent, self._open = Amount(), 0
        self._changed = threading.Condition()

    @contextmanager
    def attempt(self, size: int) -> Iterator[Bill]:
        """Reserve the maximum cost of an attempt of `size` bytes. Afterwards, the actual cost replaces it.

        If the reservation exceeds a limit, wait for attempts in progress, which may cost less than reserved. Raises
        UserError if the reservation still exceeds the limit when no attempt is in progress.
        """
        most = Amount(1, size, self._longest)
        with self._changed:
            while (bound := (self._spent + most).beyond(self._caps, self._prices)) is not None:
                if not self._open:
                    raise UserError(
                        f"the next request may exceed {bound}: {self.said}; the answers so far are cached: run again "
                        "with a higher limit to continue",
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
        """Raise UserError if the questions exceed a limit even with empty answers, and Dry in a dry run.

        Call this method before the first question is sent.
        """
        if self._dry:
            raise Dry(forecast, self._prices)
        if (bound := (self._spent + forecast.least).beyond(self._caps, self._prices)) is not None:
            raise UserError(
                f"these texts exceed {bound}, so nothing was sent: {forecast.said(self._prices)}; set fewer trials or "
                "epsilons, or a higher limit",
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
