#!/opt/cep/bin/python
"""Exit with 0 if the process of this container answers 200 at CEP_HEALTH_URL, else with 1 and the reason."""

import os
import ssl
import sys
import urllib.error
import urllib.request

TIMEOUT_S = 4

# The certificate names the service, not 127.0.0.1, and nothing secret is sent.
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
try:
    with urllib.request.urlopen(os.environ["CEP_HEALTH_URL"], timeout=TIMEOUT_S, context=context):  # noqa: S310
        pass
except urllib.error.HTTPError as error:
    sys.exit(error.read(1_000).decode(errors="replace"))
except (OSError, ValueError) as error:
    sys.exit(f"{os.environ['CEP_HEALTH_URL']}: {error}")
