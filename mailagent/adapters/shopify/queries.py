"""The GraphQL queries that we send to Shopify. Tests check them against Shopify's schema.

A query may cost at most 1,000 points, about one for each object that it may return
(https://shopify.dev/docs/api/usage/limits). So we read orders one by one, with bounds.
"""

from __future__ import annotations

from mailagent.adapters.shopify.orders import PACKED

# The most lines of a page, and the most parcels, transactions and refunds of an order. If an order has so many,
# it may have more.
LINES, PARCELS, TRANSACTIONS, REFUNDS = 50, 11, 60, 40

_MONEY = "{ presentmentMoney { amount currencyCode } }"

FIND = """
query($first: Int!, $after: String, $query: String!) {
  orders(first: $first, after: $after, query: $query, sortKey: PROCESSED_AT, reverse: true) {
    pageInfo { hasNextPage endCursor }
    nodes { id name email }
  }
}
"""

_LINES = f"""
fragment Lines on LineItemConnection {{
  pageInfo {{ hasNextPage endCursor }}
  nodes {{
    id sku name quantity currentQuantity isGiftCard
    originalUnitPriceSet {_MONEY}
    discountAllocations {{ allocatedAmountSet {_MONEY} }}
  }}
}}
"""

ORDER = f"""
query($id: ID!) {{
  order(id: $id) {{
    id name email processedAt cancelledAt displayFulfillmentStatus taxesIncluded dutiesIncluded
    presentmentCurrencyCode
    billingAddress {{ name }}
    disputes {{ id initiatedAs status }}
    totalShippingPriceSet {_MONEY}
    currentShippingPriceSet {_MONEY}
    totalTaxSet {_MONEY}
    currentTotalTaxSet {_MONEY}
    originalTotalDutiesSet {_MONEY}
    currentTotalDutiesSet {_MONEY}
    lineItems(first: {LINES}) {{ ...Lines }}
    fulfillments(first: {PARCELS}) {{
      id status displayStatus requiresShipping createdAt inTransitAt estimatedDeliveryAt deliveredAt
      trackingInfo(first: 1) {{ company number url }}
      events(first: 1, sortKey: HAPPENED_AT, reverse: true) {{ nodes {{ happenedAt }} }}
      fulfillmentLineItems(first: {PACKED}) {{ nodes {{ quantity lineItem {{ id }} }} }}
    }}
    transactions(first: {TRANSACTIONS}) {{
      id kind status gateway manualPaymentGateway amountSet {_MONEY} parentTransaction {{ id }}
    }}
  }}
}}
{_LINES}"""

MORE_LINES = f"""
query($id: ID!, $after: String) {{
  order(id: $id) {{ lineItems(first: {LINES}, after: $after) {{ ...Lines }} }}
}}
{_LINES}"""

# https://shopify.dev/docs/api/admin-graphql/latest/mutations/orderCancel: asynchronous, so look again.
CANCEL = """
mutation($id: ID!, $note: String) {
  orderCancel(
    orderId: $id, reason: CUSTOMER, restock: true, notifyCustomer: false, staffNote: $note,
    refundMethod: { originalPaymentMethodsRefund: false }
  ) {
    orderCancelUserErrors { code message }
  }
}
"""

# Reads the remaining units of an order, and the notes of its refunds.
ITEMS = f"""
query($id: ID!) {{
  order(id: $id) {{
    displayFulfillmentStatus cancelledAt presentmentCurrencyCode
    refunds(first: {REFUNDS}) {{ note }}
    lineItems(first: {LINES}) {{
      nodes {{ id sku name currentQuantity originalUnitPriceSet {_MONEY} }}
    }}
  }}
}}
"""

ADDRESS = f"""
query($id: ID!) {{
  order(id: $id) {{
    displayFulfillmentStatus cancelledAt taxesIncluded
    currentTotalPriceSet {_MONEY}
    currentTotalTaxSet {_MONEY}
    shippingAddress {{
      name firstName lastName company address1 address2 zip city phone
      province provinceCode country countryCodeV2
    }}
  }}
}}
"""

# https://shopify.dev/docs/api/admin-graphql/latest/mutations/orderUpdate
CHANGE_ADDRESS = """
mutation($input: OrderInput!) {
  orderUpdate(input: $input) { userErrors { field message } }
}
"""

ADDRESS_SCOPE = "write_orders"
RESTOCK_SCOPE = "read_locations"

# Where units can be restocked: Shopify does not restock without a location.
RESTOCK = """
query($id: ID!, $lines: [RefundLineItemInput!]!) {
  order(id: $id) {
    suggestedRefund(refundLineItems: $lines) {
      refundLineItems { lineItem { id } location { id } }
    }
  }
}
"""

_MADE = f"""
fragment Made on Refund {{
  id note
  transactions(first: 5) {{
    nodes {{ id kind status amountSet {_MONEY} parentTransaction {{ id }} }}
  }}
}}
"""

PAYMENT = f"""
query($id: ID!) {{
  node(id: $id) {{
    ... on OrderTransaction {{
      id kind status gateway amountSet {_MONEY}
      order {{
        id name presentmentCurrencyCode
        refunds(first: {REFUNDS}) {{ ...Made }}
      }}
    }}
  }}
}}
{_MADE}"""

# Since API version 2026-04 the key is mandatory. Shopify remembers it for a day:
# https://shopify.dev/docs/api/usage/implementing-idempotency
REFUND = f"""
mutation($input: RefundInput!, $key: String!) {{
  refundCreate(input: $input) @idempotent(key: $key) {{
    refund {{ ...Made }}
    userErrors {{ field message }}
  }}
}}
{_MADE}"""

SCOPES = "query { currentAppInstallation { accessScopes { handle } } }"
