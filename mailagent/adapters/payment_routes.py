"""Which gateway has which payment: one order may be paid by card and by the shop's gift card."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mailagent.domain.refunds.payment import (
    GatewayRefund,
    PaymentGateway,
    PaymentOutcome,
    Refunded,
    RefundRequest,
)


class RoutedGateway:
    """Asks one gateway for the payments it knows by their id, and another for all the rest."""

    def __init__(
        self, known: PaymentGateway, is_known: Callable[[str], bool], rest: PaymentGateway
    ) -> None:
        self.name = known.name
        self._known, self._is_known, self._rest = known, is_known, rest

    def is_remote(self, payment_id: str) -> bool:
        """Say whether a refund of this payment is asked for over the network."""
        return self._is_known(payment_id)

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        """Give the money back through whichever gateway has the payment."""
        return self._of(request.payment_id).refund(request)

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        """Return what became of an earlier call, from whichever gateway has the payment.

        The rest is looked at too: before the shop changed its gateway it may have had this payment.
        """
        gateway = self._of(request.payment_id)
        if gateway is self._known:
            earlier = self._rest.look_up(request)
            if isinstance(earlier, Refunded):
                return earlier
        return gateway.look_up(request)

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        """Return all refunds of a payment; those that the rest recorded before come last."""
        gateway = self._of(payment_id)
        earlier = self._rest.list_refunds(payment_id) if gateway is self._known else ()
        return [*gateway.list_refunds(payment_id), *earlier]

    def _of(self, payment_id: str) -> PaymentGateway:
        return self._known if self._is_known(payment_id) else self._rest
