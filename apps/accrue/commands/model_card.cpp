#include "commands/model_card.h"

#include "accrue/version.h"

namespace accrue::cli {
namespace {

constexpr const char* byte_tokenizer_section = R"(
## Tokenizer

Tokens are bytes: the id of a token is the value of the byte, 0 to 255, and text is its UTF-8 bytes.
`tokenizer.json` says the same in the form that `transformers` reads (GPT-2's byte-level BPE without merges).
Without it, `list(text.encode())` encodes and `bytes(ids).decode(errors="replace")` decodes.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("PATH_TO_THIS_FOLDER")
tokenizer = AutoTokenizer.from_pretrained("PATH_TO_THIS_FOLDER")
inputs = tokenizer("def main(", return_tensors="pt")
print(tokenizer.decode(model.generate(**inputs, max_new_tokens=100, do_sample=True)[0]))
```
)";

constexpr const char* foreign_tokenizer_section = R"(
## Tokenizer

The model was trained on files of token ids. The tokenizer that made them is not part of this folder; ids must come
from the same one.

```python
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("PATH_TO_THIS_FOLDER")
```
)";

}  // namespace

std::string model_card(const train::Config& config, const models::Gpt2Options& shape,
                       const std::string& checkpoint, bool byte_tokens) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  std::string card =
      "---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags:\n- gpt2\n- accrue\n"
      "---\n\n# A GPT-2 model trained with accrue\n\n";
  card += number(shape.layers) + " layers, " + number(shape.heads) + " heads, width " +
          number(shape.width) + ", context " + number(shape.context) + ", vocabulary " +
          number(shape.vocab) + ". Written by accrue " + version + " from " + checkpoint + ".\n";
  card += byte_tokens ? byte_tokenizer_section : foreign_tokenizer_section;
  card += "\n## Training\n\nThe config of the run:\n\n```toml\n" + train::to_toml(config) + "```\n";
  return card;
}

}  // namespace accrue::cli
