"""Webhooks: what is sent and how it is signed, what each answer means, where requests may go."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from email.utils import formatdate

import pytest
from standardwebhooks import Webhook as Verifier

from dtoss.client.endpoint import Access, place_of
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.watch.targets.target import Refused, target_at
from dtoss.watch.targets.webhook import Webhook, why_not
from tests.dtoss.watch.targets.batches import batches, ids
from tests.dtoss.watch.targets.receiver import SECRET, answer, raw, receiving

ALLOWED = frozenset(["127.0.0.1", "hooks.example.org", "localhost"])
NOW = 1_700_000_000


def hook(url, *, access=None, allowed=ALLOWED, timeout=60.0, **more):
    made = Webhook(place_of(url), access or Access(SECRET, allowed, timeout), **more)
    made.begin("mark")
    return made


def test_what_is_sent_is_verified_by_a_library_of_others():
    """The same bytes and the same id each time; who holds another secret is not believed."""
    (batch,) = batches(1)
    with receiving() as receiver:
        target = hook(receiver.url)
        for _ in range(2):
            target.take(batch)
        target.close()
    (headers, body), (again, same) = receiver.got
    assert receiver.connections == 1
    assert body == same
    assert headers["webhook-id"] == again["webhook-id"] == f"mark_{ids(batch)[0]}_{ids(batch)[-1]}"
    assert headers["host"] == f"127.0.0.1:{receiver.port}"
    said = Verifier(SECRET).verify(body, headers)
    assert said["type"] == "dtoss.events"
    assert said["timestamp"] == "1970-01-01T00:00:00.000002Z"
    assert said["data"] == [json.loads(line) for piece in batch.lines.pieces for line in piece.splitlines()]
    for wrong in (dict(headers, **{"webhook-id": "x"}), dict(headers, **{"webhook-timestamp": "1"})):
        with pytest.raises(Exception, match=r"(?i)signature|old"):
            Verifier(SECRET).verify(body, wrong)
    with pytest.raises(Exception, match=r"(?i)signature"):
        Verifier("whsec_" + base64.b64encode(bytes(32)).decode()).verify(body, headers)


def test_two_secrets_are_two_signatures():
    other = "whsec_" + base64.b64encode(bytes(24)).decode()
    with receiving() as receiver:
        target = hook(receiver.url, access=Access(f"{SECRET}\n\n {other} \n", ALLOWED))
        target.take(batches(1)[0])
        target.close()
    ((headers, body),) = receiver.got
    assert headers["webhook-signature"].count("v1,") == 2
    for secret in (SECRET, other):
        Verifier(secret).verify(body, headers)


@pytest.mark.parametrize("secret", [None, "", "abc", "whsec_abc", "whsec_" + base64.b64encode(bytes(23)).decode()])
def test_a_secret_that_is_none_is_refused_and_not_shown(secret):
    with pytest.raises(InputError, match="whsec_ and 24 to 64 bytes") as error:
        hook("https://hooks.example.org/x", access=Access(secret))
    assert "abc" not in str(error.value)


@pytest.mark.parametrize(
    ("give", "kind", "why", "seconds"),
    [
        (answer(500, b"no\x00 \x1bdb"), Later, r"answers 500 \(no db\)", 0.0),
        (answer(503, Retry_After="7"), Later, "answers 503", 7.0),
        (answer(429, Retry_After=formatdate(NOW + 90, usegmt=True)), Later, "answers 429", 90.0),
        (answer(429, Retry_After="soon"), Later, "answers 429", 0.0),
        (answer(408, Retry_After=formatdate(NOW - 90, usegmt=True)), Later, "answers 408", 0.0),
        (answer(400, b"x" * 5000), Refused, r"answers 400 \(x{200}\)", None),
        (answer(404), Refused, "answers 404", None),
        (answer(302, Location="http://127.0.0.1:1/"), Refused, "answers 302", None),
        (answer(410), InputError, "wants no more events", None),
        (raw(b""), Later, "does not answer", 0.0),
        (raw(b"SSH-2.0\x1b[2J\r\n"), Later, r"does not answer \(SSH-2.0 \[2J\)", 0.0),
        (raw(b"HTTP/1.1 2"), Later, "does not answer", 0.0),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Le"), None, None, None),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), None, None, None),
    ],
)  # fmt: skip
def test_what_each_answer_means(give, kind, why, seconds):
    """A status that has come counts, whatever follows it; the next batch has a connection that works."""
    first, second = batches(2)
    with receiving(give, answer(204)) as receiver:
        target = hook(receiver.url, wall=lambda: NOW)
        if kind is None:
            target.take(first)
        else:
            with pytest.raises(kind, match=why) as error:
                target.take(first)
            assert seconds is None or error.value.seconds == seconds
        target.take(second)
        target.close()
    assert receiver.told == [ids(first), ids(second)]


def test_who_answers_letter_by_letter_has_no_more_time_than_others():
    """Nor does who says nothing at all."""
    done = threading.Event()

    def slow(handler):
        while not done.wait(0.02):
            handler.wfile.write(b"H")

    for give in (slow, lambda _: done.wait(10)):
        done.clear()
        with receiving(give) as receiver:
            target = hook(receiver.url, timeout=0.2)
            with pytest.raises(Later, match="does not answer"):
                target.take(batches(1)[0])
            done.set()
            target.close()


def test_a_server_that_has_closed_meanwhile_is_asked_anew():
    with receiving(answer(200, Connection="close")) as receiver:
        target = hook(receiver.url)
        for batch in batches(3):
            target.take(batch)
        target.close()
    assert receiver.connections == 3


def resolving(*addresses):
    """A name server of these addresses, one answer a time; the last one stays."""
    asked = list(addresses)

    def resolve(host, port, **_):
        one = asked.pop(0) if len(asked) > 1 else asked[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port)) for text in one.split()]

    return resolve


def test_a_name_is_looked_up_once_for_a_connection():
    """It goes to the address that was judged: a second answer of the name server is another connection's."""
    with receiving(answer(200, Connection="close")) as receiver:
        url = f"http://hooks.example.org:{receiver.port}/"
        target = hook(url, resolve=resolving("127.0.0.1", "127.0.0.1", "169.254.169.254"))
        target.take(batches(1)[0])
        assert receiver.got[0][0]["host"] == f"hooks.example.org:{receiver.port}"
        with pytest.raises(Later, match=r"169\.254\.169\.254 is none that is ever asked"):
            target.take(batches(1)[0])
        target.close()
    assert len(receiver.got) == 1


def test_only_good_addresses_of_a_name_are_asked():
    with receiving() as receiver:
        target = hook(f"http://hooks.example.org:{receiver.port}/", resolve=resolving("169.254.169.254 127.0.0.1"))
        target.take(batches(1)[0])
        target.close()
    assert len(receiver.got) == 1
    with pytest.raises(InputError, match=r"10\.0\.0\.1 is private: --allow-host lets it"):
        hook("https://hooks.example.org/", allowed=frozenset(), resolve=resolving("10.0.0.1"))


GOOD = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e"]
LET = [
    "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200", "127.0.0.1",
    "127.255.0.1", "::1", "fd00:ec2::254", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "2002:a00:1::",
]  # fmt: skip
NEVER_DUE = [
    "0.0.0.0", "169.254.169.254", "169.254.0.1", "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "::",
    "fe80::1", "fe80::1%eth0", "ff02::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
    "64:ff9b:1::a9fe:a9fe", "192.0.2.1", "198.18.0.1", "2001:db8::1", "::ffff:0.0.0.0", "0.1.2.3", "fec0::1",
]  # fmt: skip


def test_which_addresses_are_asked():
    assert [one for one in GOOD if why_not(one, private=False)] == []
    assert [one for one in LET if "private" not in (why_not(one, private=False) or "")] == []
    assert [one for one in LET if why_not(one, private=True)] == []
    assert [one for one in NEVER_DUE if "ever asked" not in (why_not(one, private=True) or "")] == []
    assert [one for one in NEVER_DUE if not why_not(one, private=False)] == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "localhost", "[::1]", "[::ffff:7f00:1]"]
)
def test_loopback_is_refused_however_it_is_written(host):
    with pytest.raises(InputError, match=r"private|cannot be read"):
        hook(f"https://{host}/x", allowed=frozenset())


def test_http_goes_only_to_hosts_that_are_named():
    with pytest.raises(InputError, match=r"--allow-host hooks\.example\.org"):
        hook("http://hooks.example.org/x", allowed=frozenset(["example.org"]))
    for url, why in (
        ("https://me:secret@hooks.example.org/", "holds a password"),
        ("https://me@hooks.example.org/", "without a user"),
        ("https:///x", "is none"),
        ("https://a,b/x", "is none"),
        ("https://hooks.example.org/#x", "has a #"),
        ("https://hooks.example.org/a b", "holds blanks"),
        ("https://hooks.example.org:x/", "cannot be read"),
        ("gopher://hooks.example.org/", "is no target: https, http, file"),
        ("hooks.example.org", "is no target"),
    ):
        with pytest.raises(InputError, match=why) as error:
            target_at(url, Access(SECRET, ALLOWED))
        assert "secret@" not in str(error.value)


def test_a_certificate_is_held_to_the_name_of_the_url(tmp_path):
    """The connection goes to an address, and the certificate is that of a name: nobody else's is taken."""
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.example.org")])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(datetime.datetime(2020, 1, 1)).not_valid_after(datetime.datetime(2120, 1, 1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hooks.example.org")]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path = tmp_path / "both.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with receiving(tls=context) as receiver:
        for host, trusted, why in (
            ("hooks.example.org", path, None),
            ("hooks.example.org", None, "certificate that is not trusted"),
            ("localhost", path, "certificate that is not trusted"),
        ):
            tls = ssl.create_default_context(cafile=trusted)
            target = hook(f"https://{host}:{receiver.port}/", resolve=resolving("127.0.0.1"), tls=tls)
            if why is None:
                target.take(batches(1)[0])
            else:
                with pytest.raises(Later, match=why):
                    target.take(batches(1)[0])
            target.close()
    assert len(receiver.got) == 1
