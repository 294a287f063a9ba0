"""docs/clients.md as it stands: clients that public generators make, compiled, and a real server that they ask.

``make clients`` installs the generators; ``DTOSS_CLIENTS`` names another folder where they are.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dtoss
from tests.dtoss.serve.events.listening import Watch
from tests.dtoss.serve.served import Asker, running

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
TOOLS = Path(os.environ.get("DTOSS_CLIENTS", ROOT / "build" / "clients"))
HERE, SHAPE = (2.3522, 48.8566), [[2.34, 48.85], [2.36, 48.85], [2.35, 48.87]]
GENERATE, ASK = "openapi-typescript", "tsc --strict --target es2022 --module nodenext ask.ts"

deep = pytest.mark.deep("generators and compilers; test_described.py holds what they need of the description")


def tool(name):
    """The path of a generator; the test is skipped where there is none."""
    for folder in (TOOLS / "node_modules" / ".bin", TOOLS / "bin"):
        if (folder / name).exists():
            return str(folder / name)
    return shutil.which(name) or pytest.skip(f"there is no {name} in {TOOLS}: make clients installs it")


def block(kind):
    """The program of the page in a language."""
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return found


def run(arguments, folder, **more):
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False, timeout=280, **more)


def town(strings):
    """Objects around the place of the page, whose ids are texts, or numbers that float64 has no digits for."""
    rng = np.random.default_rng(0)
    places = rng.normal(HERE, 0.004, (2_000, 2))
    numbers = 2**60 + rng.permutation(2_000)
    ids = [f"é/{number} %" for number in numbers] if strings else numbers
    return dtoss.build(ids, places, columns={"occupied": rng.integers(0, 2, 2_000)})


@pytest.fixture(params=["numbers", "texts"])
def server(request, tmp_path):
    watch = Watch(tmp_path / "store").begin()
    with running(town(request.param == "texts"), store=str(watch.home.store), allow_subscribe=True) as made:
        made.url = "http://{}:{}".format(*made.at)
        yield made


def described(server, folder, ids):
    with Asker(server) as asker:
        (folder / "dtoss.json").write_text(json.dumps(asker.get("/openapi.json", ids=ids)), encoding="utf-8")


def test_the_page_names_the_versions_that_make_clients_installs():
    recipe = (ROOT / "Makefile").read_text().partition("\nclients:")[2].partition("\n\n")[0]
    named = re.findall(r"[\w-]+(?:@|==)[\d.]+", PAGE)
    assert len(set(named)) == 4
    assert set(named) == set(re.findall(r"[\w-]+(?:@|==)[\d.]+", recipe))


@deep
def test_typescript_asks_its_questions(server, tmp_path):
    """Ids, distances and counts are those of the index; and who forgets to say how ids come does not compile."""
    compile_ = [tool(ASK.split()[0]), *ASK.split()[1:]]
    described(server, tmp_path, "string")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "node_modules").symlink_to(Path(compile_[0]).resolve().parents[2])
    done = run([tool(GENERATE), "dtoss.json", "-o", "routes.ts"], tmp_path)
    assert done.returncode == 0, done.stderr
    program = block("ts").replace("http://127.0.0.1:8080", server.url)
    (tmp_path / "ask.ts").write_text(program.replace("k: 3, ids,", "k: 3,"), encoding="utf-8")
    refused = run(compile_, tmp_path)
    assert "Property 'ids' is missing" in refused.stdout
    (tmp_path / "ask.ts").write_text(program, encoding="utf-8")
    compiled = run(compile_, tmp_path)
    assert compiled.returncode == 0, compiled.stdout
    done = run([tool("node"), "ask.js"], tmp_path)
    assert done.returncode == 0, done.stderr
    said, index = json.loads(done.stdout), server.index

    def told(hits):
        return [(hit["id"], hit["distance"]) for hit in hits]

    def wanted(hits):
        return list(zip(map(str, hits.id.tolist()), hits.distance.tolist(), strict=True))

    near = index.knn(HERE, 3, columns=["occupied"])
    assert told(said["near"]["hits"]) == wanted(near)
    assert [hit["occupied"] for hit in said["near"]["hits"]] == near.columns["occupied"].to_pylist()
    assert told(said["around"]["hits"]) == wanted(index.range(HERE, 500.0))
    assert said["many"]["count"] == int(index.count(HERE, 500.0, where="occupied = 0")[0]) > 0
    assert [hit["id"] for hit in said["inside"]["hits"]] == list(map(str, index.within(SHAPE).id.tolist()))
    assert said["one"]["id"] == str(near.id[0])
    assert said["one"]["neighbours"] == list(map(str, index.neighbours(near.id[0]).tolist()))
    assert said["asked"]["added"] == 1
    assert "station" in [one["id"] for one in said["standing"]["subscriptions"]]
    assert "91" in said["wrong"]["detail"]


@deep
def test_java_asks(server, tmp_path):
    """Ids and distances keep all their bits; JSON is answered though the client names Arrow, too."""
    jars = pytest.importorskip("pyspark").__path__[0] + "/jars/*"
    if shutil.which("javac") is None:
        pytest.skip("there is no javac")
    described(server, tmp_path, "number")
    more = "openApiNullable=false,useJakartaEe=true"  # with the libraries that PySpark brings
    made = run(
        [tool("openapi-generator-cli"), "generate", "-g", "java", "--library", "native", "-i", "dtoss.json", "-o", ".",
         f"--additional-properties={more}"], tmp_path,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    (question, print_) = block("java").splitlines()
    at = tmp_path / "src" / "main" / "java" / "Ask.java"
    at.write_text(
        "import org.openapitools.client.ApiClient; import org.openapitools.client.api.QuestionsApi;\n"
        "import org.openapitools.client.model.Hits;\n"
        "public class Ask { public static void main(String[] args) throws Exception {\n"
        f'ApiClient client = new ApiClient(); client.updateBaseUri("{server.url}");\n{question}\n{print_}\n'
        'System.out.println(hits.getHits().get(0).getDistance()); } }\n',
        encoding="utf-8",
    )  # fmt: skip
    sources = list(map(str, (tmp_path / "src" / "main").rglob("*.java")))
    compiled = run(["javac", "-nowarn", "-encoding", "utf-8", "-d", "out", "-cp", jars, *sources], tmp_path)
    assert compiled.returncode == 0, compiled.stderr
    asked = run(["java", "-Dstdout.encoding=UTF-8", "-Dfile.encoding=UTF-8", "-cp", f"out:{jars}", "Ask"], tmp_path)
    assert asked.returncode == 0, asked.stderr
    check_first(server.index, asked.stdout)


def check_first(index, printed):
    """Hold the id, the attribute and the distance of the nearest that a program prints against the index."""
    nearest = index.knn(HERE, 3, columns=["occupied"])
    (name, occupied), distance = printed.splitlines()[0].rsplit(" ", 1), printed.splitlines()[-1].split()[-1]
    assert name == str(nearest.id[0])
    assert int(float(occupied)) == nearest.columns["occupied"].to_pylist()[0]
    assert float(distance) == nearest.distance[0]


@deep
def test_go_asks(server, tmp_path):
    go = shutil.which("go") or pytest.skip("there is no go")
    described(server, tmp_path, "number")
    made = run(
        [tool("openapi-generator-cli"), "generate", "-g", "go", "-i", "dtoss.json", "-o", "dtoss",
         "--additional-properties=packageName=dtoss,withGoMod=false"], tmp_path,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    shutil.rmtree(tmp_path / "dtoss" / "test")
    question, print_ = block("go").splitlines()
    (tmp_path / "main.go").write_text(
        'package main\nimport ("context"; "fmt"; "asking/dtoss")\nfunc main() {\nctx := context.Background()\n'
        f'client := dtoss.NewAPIClient(dtoss.NewConfiguration())\nclient.GetConfig().Servers[0].URL = "{server.url}"\n'
        f"{question}\nif err != nil {{ panic(err) }}\n{print_}\nfmt.Println(hits.Hits[0].Distance)\n}}\n"
    )
    # its only library, which checks fields of what is one of several; a network would bring it
    (tmp_path / "validator").mkdir()
    (tmp_path / "validator" / "go.mod").write_text("module gopkg.in/validator.v2\n")
    (tmp_path / "validator" / "validator.go").write_text(
        "package validator\nfunc Validate(interface{}) error { return nil }\n"
    )
    (tmp_path / "go.mod").write_text(
        "module asking\ngo 1.18\nrequire gopkg.in/validator.v2 v2.0.1\nreplace gopkg.in/validator.v2 => ./validator\n"
    )
    asked = run(
        [go, "run", "."], tmp_path, env=os.environ | {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOSUMDB": "off"}
    )
    assert asked.returncode == 0, asked.stderr
    check_first(server.index, asked.stdout)
