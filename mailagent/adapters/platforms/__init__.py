"""What the adapters of Shopify and WooCommerce share: calls, amounts, our mark on a refund, webhooks."""
