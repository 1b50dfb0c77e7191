"""An order server for ORDER_SOURCE=http, as an example: put your database in place of ORDERS."""
# ORDER_SOURCE_TOKEN=… python docs/order_server.py 8090 orders.jsonl

import hmac
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

RECORDS = Path(sys.argv[2]).read_text("utf-8-sig").strip("[] \n").replace("}\n{", "},\n{")
ORDERS = {order["order_id"]: order for order in json.loads(f"[{RECORDS}]")}
CANCELLED = {}  # what was answered, by idempotency key: keep it for some days


class Handler(BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        expected = f"Bearer {os.environ['ORDER_SOURCE_TOKEN']}"
        is_allowed = hmac.compare_digest(self.headers.get("Authorization", ""), expected)
        status, value = self.route(body) if is_allowed else (401, None)
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = answer  # noqa: N815 - the names that the standard library calls

    def route(self, body):
        url = urlsplit(self.path)
        match self.command, *map(unquote, url.path.split("/")[1:]):
            case "GET", "orders":
                return find_orders(**dict(parse_qsl(url.query)))
            case "GET", "orders", order_id if order_id in ORDERS:
                return 200, ORDERS[order_id]
            case "POST", "orders", order_id, "cancel" if order_id in ORDERS:
                if json.loads(body)["items"]:
                    return 501, {"reason": "this server cancels whole orders only"}
                return cancel(ORDERS[order_id], self.headers["Idempotency-Key"])
        return 404, {"error": "order_not_found"}


def find_orders(email, cursor="0"):
    theirs = [order for order in ORDERS.values() if order["customer"]["email"].lower() == email]
    theirs.sort(key=lambda order: order["placed_at"], reverse=True)
    end = int(cursor) + 50
    return 200, {"orders": theirs[end - 50 : end], "next": str(end) if theirs[end:] else None}


def cancel(order, key):
    if key not in CANCELLED and order["status"] not in ("pending", "cancelled"):
        return 409, {"reason": order["status"]}
    if key not in CANCELLED:
        order["status"] = "cancelled"  # without a refund: mailagent pays the money back
    return 200, CANCELLED.setdefault(key, dict(order))


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
