"""The authorization server of idpyoidc, with HTTP around it: users sign in, and their tokens are exchanged (RFC 8693).

Says where it listens and goes on until it is killed. What it is, it is by settings: no grant, token or policy is written here.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from idpyoidc.server import Server
from idpyoidc.server.client_authn import ClientAuthenticationError
from idpyoidc.server.configure import OPConfiguration
from idpyoidc.server.exception import UnAuthorizedClient

ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
JSON = [("Content-Type", "application/json")]


def part(name, **settings):
    return {"class": f"idpyoidc.server.{name}", "kwargs": settings}


def settings(issuer):
    secret = {"type": "oct", "bytes": 24}
    proof = ["client_secret_basic"]
    minting = {
        "authorization_code": {"supports_minting": ["access_token", "id_token"], "max_usage": 1},
        "access_token": {"supports_minting": ["access_token"], "expires_in": 600},
    }
    cookies = [{**secret, "kid": "sig", "use": ["sig"]}, {**secret, "kid": "enc", "use": ["enc"]}]
    introspection = part(
        "oauth2.introspection.Introspection", client_authn_method=proof, enable_claims_per_client=False
    )
    return {
        "issuer": issuer,
        "keys": {"uri_path": "keys", "key_defs": [{"type": "EC", "crv": "P-256", "use": ["sig"]}]},
        "cookie_handler": part("cookie_handler.CookieHandler", keys={"key_defs": cookies}),
        "endpoint": {
            "provider_config": {
                "path": ".well-known/openid-configuration",
                **part("oidc.provider_config.ProviderConfiguration"),
            },
            "authorization": {"path": "authorization", **part("oidc.authorization.Authorization")},
            "token": {"path": "token", **part("oidc.token.Token", client_authn_method=proof)},
            "introspection": {"path": "introspection", **introspection},
        },
        "authentication": {
            "basic": {"acr": "password", **part("user_authn.user.BasicAuthn", pwd={"ada": "ada's", "bob": "bob's"})}
        },
        "userinfo": part("user_info.UserInfo", db={"ada": {}, "bob": {}}),
        "authz": part("authz.AuthzHandling", grant_config={"usage_rules": minting, "expires_in": 600}),
        "token_handler_args": {
            "key_conf": {"key_defs": [{**secret, "kid": "code", "use": ["enc"]}]},
            "code": {"lifetime": 60},
            "id_token": part("token.id_token.IDToken"),
            "token": part("token.jwt_token.JWTToken", lifetime=600),
        },
    }


def client(name, **more):
    return {
        "client_secret": f"{name}-secret",
        "client_salt": name,
        "redirect_uris": [(f"https://{name}.example.com/back", None)],
        "response_types": ["code"],
        "allowed_scopes": ["openid", "orders"],
        "id_token_signed_response_alg": "ES256",
        "token_endpoint_auth_method": "client_secret_basic",
        **more,
    }


def clients():
    """`toolcrib` may exchange what was given to it, for tokens that `orders` takes and nobody else."""
    check = "idpyoidc.server.oauth2.token_helper.validate_token_exchange_policy"
    exchange = {
        "requested_token_types_supported": [ACCESS_TOKEN],
        "policy": {"": {"function": check, "kwargs": {"audience": ["orders"]}}},
    }
    grants = ["authorization_code", EXCHANGE]
    return {
        "toolcrib": client("toolcrib", grant_types_supported=grants, token_exchange=exchange),
        "orders": client("orders"),
    }


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/keys":
            return self.say(200, OP.keyjar.export_jwks_as_json(), JSON)
        endpoint = next((one for one in OP.endpoint.values() if f"/{one.endpoint_path}" == path), None)
        if endpoint is None:
            return self.say(404, "", [])
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        try:
            answer = self.asked(endpoint, body or query)
        except (ClientAuthenticationError, UnAuthorizedClient):
            answer = 401, json.dumps({"error": "invalid_client"}), JSON
        return self.say(*answer)

    do_POST = do_GET

    def asked(self, endpoint, request):
        headers = {name.lower(): value for name, value in self.headers.items()}
        about = {"headers": headers, "method": self.command, "url": OP.context.issuer + self.path}
        request = endpoint.parse_request(request, http_info=about)
        answer = endpoint.process_request(request, http_info=about, authn=headers.get("authorization", ""))
        if "error" in answer:
            return 400, answer.to_json(), JSON
        said = endpoint.do_response(request=request, **answer)
        if endpoint.response_placement == "url":
            return 303, "", [("Location", said["response"])]
        return 200, said["response"], said["http_headers"]

    def say(self, status, body, headers):
        body = body.encode()
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
OP = Server(OPConfiguration(settings(f"http://127.0.0.1:{web.server_port}"), base_path="."), cwd=".")
# Otherwise it does not know which grants it supports.
OP.context.map_supported_to_preferred()
OP.context.cdb.update(clients())
print(f"listens on {OP.context.issuer}", flush=True)
web.serve_forever()
