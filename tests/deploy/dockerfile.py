"""Reads a Dockerfile as far as deploy/ uses the language: stages and their steps, with arguments put in."""
import json
import re
from dataclasses import dataclass, field


@dataclass
class Step:
    word: str  # RUN or COPY
    text: str
    environment: dict
    folder: str  # WORKDIR
    user: str
    from_stage: str = ""  # of COPY --from


@dataclass
class Stage:
    name: str
    base: str  # an image, or the name of an earlier stage
    steps: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    folder: str = "/"
    user: str = "root"
    entrypoint: list = field(default_factory=list)
    command: list = field(default_factory=list)
    health: list = field(default_factory=list)
    labels: dict = field(default_factory=dict)


def instructions(text):
    text = re.sub(r"^[ \t]*#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def parse(text, arguments):
    """-> {name: Stage}, in order. `arguments` stand over the defaults of ARG."""
    stages, stage, before, values = {}, None, {}, {}

    def put_in(rest):
        return re.sub(r"\$\{(\w+)\}", lambda m: values[m[1]], rest)

    for word, rest in instructions(text):
        if word == "ARG":
            name, _, default = rest.partition("=")
            value = arguments.get(name, default if "=" in rest else before.get(name, ""))
            values[name] = value
            if stage is None:
                before[name] = value
            else:
                stage.environment[name] = value
        elif word == "FROM":
            values = dict(before)
            base, _, name = put_in(rest).partition(" AS ")
            stage = Stage(name, base)
            if base in stages:
                parent = stages[base]
                for inherited in ("environment", "labels"):
                    setattr(stage, inherited, dict(getattr(parent, inherited)))
                stage.folder, stage.user, values = parent.folder, parent.user, {**values, **parent.environment}
            stages[name] = stage
        elif word in ("RUN", "COPY"):
            step = Step(word, rest, dict(stage.environment), stage.folder, stage.user)
            if word == "COPY":
                option = re.match(r"--from=(\S+)\s+", rest)
                step.from_stage = option[1] if option else ""
                step.text = rest[option.end():] if option else rest
            stage.steps.append(step)
        elif word == "WORKDIR":
            stage.folder = put_in(rest)
        elif word == "USER":
            stage.user = rest
        elif word == "ENTRYPOINT":
            stage.entrypoint = json.loads(rest)
        elif word == "CMD":
            stage.command = json.loads(rest)
        elif word == "HEALTHCHECK":
            stage.health = json.loads(rest.partition("CMD ")[2])
        elif word == "LABEL":
            stage.labels.update(re.findall(r'(\S+)="([^"]*)"', put_in(rest)))
        elif word != "EXPOSE":
            raise ValueError(f"{word}: not an instruction that this reader knows")
    return stages
