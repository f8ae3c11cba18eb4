"""Report a failed re-audit: a Prefect automation that posts the event's message to a webhook as {"text": ...}.

usage: EPSILOMETER_WEBHOOK=https://hooks.example.org/abc python -m flows.alert

Needs the Prefect server that the re-audits report to (PREFECT_API_URL). The address is a secret: it is read from the
environment and kept encrypted on the server, in the block `epsilometer`. A second call replaces the address.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client
from prefect.events import emit_event
from prefect.events.actions import CallWebhook
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.settings import PREFECT_API_URL
from prefect.types import SecretDict
from pydantic import SecretStr

from epsilometer.reaudit import drift
from epsilometer.reaudit.drift import Drift, numbers

# UNKNOWN: a re-audit did not pass, but no loss is known to have grown.
WORSE, UNKNOWN = "epsilometer.privacy.worse", "epsilometer.privacy.unknown"
NAME = "epsilometer: privacy got worse"
_SENT = 50  # maximum number of rows of each verdict in one event; the most serious rows come first


def send_to(url: str) -> UUID:
    """Create or update the automation that posts both events to `url`. Returns its id; raises Prefect's errors."""
    headers = SecretDict({"Content-Type": "application/json"})
    block = Webhook(url=SecretStr(url), headers=headers)
    trigger = EventTrigger(
        expect={WORSE, UNKNOWN},
        match={"prefect.resource.id": "epsilometer.audit.*"},
        posture=Posture.Reactive,
        threshold=1,
        within=timedelta(0),
    )
    with get_client(sync_client=True) as client:
        block_id = block.save("epsilometer", overwrite=True)
        assert isinstance(block_id, UUID)  # a coroutine only within a running event loop
        post = CallWebhook(block_document_id=block_id, payload='{"text": {{ event.payload.message | tojson }}}')
        automation = AutomationCore(name=NAME, trigger=trigger, actions=[post])
        for there in client.read_automations_by_name(NAME):
            client.update_automation(there.id, automation)
            return there.id
        return client.create_automation(automation)


def alert(folder: Path, drifts: Sequence[Drift], said: str, changed: Sequence[str]) -> None:
    """Emit the event of a re-audit that does not pass. The event has numbers, names and the message, but no text."""

    def rows(verdict: str) -> list[dict[str, Any]]:
        return [
            {
                **change.row._asdict(),
                "before": dict(numbers(change.before)),
                "now": dict(numbers(change.now)),
                "p_value": change.p_value,
            }
            for change in drifts
            if change.verdict == verdict
        ][:_SENT]

    worse = rows(drift.WORSE)
    emit_event(
        WORSE if worse else UNKNOWN,
        resource={"prefect.resource.id": f"epsilometer.audit.{folder.as_posix()}"},
        payload={
            "message": said,
            "worse": worse,
            "gone": rows(drift.GONE),
            "changed": list(changed),
        },
    )


def main() -> None:
    """Run the command line."""
    url = os.environ.get("EPSILOMETER_WEBHOOK")
    if not url or PREFECT_API_URL.value() is None:
        sys.exit("error: set EPSILOMETER_WEBHOOK to the webhook's address, and PREFECT_API_URL to the Prefect server's")
    send_to(url)
    print(f"the automation {NAME!r} posts to the webhook")


if __name__ == "__main__":
    main()
