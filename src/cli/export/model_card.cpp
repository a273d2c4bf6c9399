#include "cli/export/model_card.h"

#include "accrue/version.h"
#include "cli/export/card_parts.h"

namespace accrue::cli {
namespace {

constexpr const char* loading_packages = "torch transformers";

constexpr const char* byte_tokenizer = R"(
## Tokenizer

Tokens are bytes: the id of a token is the value of the byte, 0 to 255, and text is its UTF-8 bytes.
`tokenizer.json` says the same in the form that `transformers` reads (GPT-2's byte-level BPE without merges).
Without it, `list(text.encode())` encodes and `bytes(ids).decode(errors="replace")` decodes.
)";

constexpr const char* loading_with_tokenizer = R"(
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("PATH_TO_THIS_FOLDER")
tokenizer = AutoTokenizer.from_pretrained("PATH_TO_THIS_FOLDER")
inputs = tokenizer("def main(", return_tensors="pt")
print(tokenizer.decode(model.generate(**inputs, max_new_tokens=100, do_sample=True)[0]))
```
)";

constexpr const char* answering = R"(
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("PATH_TO_THIS_FOLDER")
tokenizer = AutoTokenizer.from_pretrained("PATH_TO_THIS_FOLDER")
messages = [{"role": "user", "content": "Who are you?"}]
inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
output = model.generate(**inputs, max_new_tokens=100)
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))
```
)";

constexpr const char* token_files_sentence =
    "The model was trained on files of token ids. The tokenizer that made them is not part of this "
    "folder; ids must come\nfrom the same one.\n";

constexpr const char* json_lines_sentence =
    "The model was trained on JSON lines. If they held text, the id of a token is the value of "
    "a byte, 0 to 255; if\nthey held `input_ids`, ids must come from the tokenizer that made "
    "them, which is not part of this folder.\n";

constexpr const char* loading_without_tokenizer = R"(
```python
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("PATH_TO_THIS_FOLDER")
```
)";

std::string loading_section(const std::string& tokens, const std::string& loading) {
  return "\n## Tokenizer\n\n" + tokens + "\n" + needed_packages(loading_packages) + loading;
}

/// For a model whose text, or ids, use a tokenizer among the files.
std::string own_tokenizer_section(const train::TrainedModel& trained, const ExportedText& text) {
  return loading_section(
      trained.tokenizer.empty()
          ? "The model was trained on token ids. `tokenizer.json` is that of the model that it\n"
            "began with.\n"
          : "`tokenizer.json` made tokens of the text that the model was trained on.\n",
      text.chat_templates.empty() ? loading_with_tokenizer : answering);
}

std::string other_tokenizer_section(const train::TrainedModel& trained) {
  return loading_section(
      trained.data_format == "jsonl" ? json_lines_sentence : token_files_sentence,
      loading_without_tokenizer);
}

std::string byte_tokenizer_section() {
  return std::string(byte_tokenizer) + "\n" + needed_packages(loading_packages) +
         loading_with_tokenizer;
}

constexpr const char* filling_masks = R"(
```python
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

model = AutoModelForMaskedLM.from_pretrained("PATH_TO_THIS_FOLDER")
tokenizer = AutoTokenizer.from_pretrained("PATH_TO_THIS_FOLDER")
fill = pipeline("fill-mask", model=model, tokenizer=tokenizer)
print(fill(f"def m{tokenizer.mask_token}in("))
```
)";

constexpr const char* loading_masked_model = R"(
```python
from transformers import AutoModelForMaskedLM

model = AutoModelForMaskedLM.from_pretrained("PATH_TO_THIS_FOLDER")
```
)";

/// "4 layers, 4 heads, ..." with the program that wrote it.
std::string shape_in_words(const train::TrainedModel& trained) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const train::ModelConfig& shape = trained.config.model;
  return number(shape.layers) + " layers, " + number(shape.heads) + " heads, width " +
         number(shape.width) + ", context " + number(shape.context_or_default()) + ", vocabulary " +
         number(shape.vocab.value_or(0)) + ". " + written_from(trained);
}

std::string tokenizer_section(const train::TrainedModel& trained, const ExportedText& text) {
  if (text.is_bytes) return byte_tokenizer_section();
  return text.has_tokenizer ? own_tokenizer_section(trained, text)
                            : other_tokenizer_section(trained);
}

/// The Python that loads adapters onto their base, with the tokens of this folder if it has them.
std::string loading_adapters(const ExportedText& text) {
  const bool has_tokenizer = text.has_tokenizer;
  return std::string("\n```python\nfrom peft import PeftModel\n") +
         "from transformers import AutoModelForCausalLM" +
         (has_tokenizer ? ", AutoTokenizer" : "") +
         (text.has_generation ? ", GenerationConfig" : "") +
         "\n\nbase = AutoModelForCausalLM.from_pretrained(\"PATH_TO_THE_BASE\")\n"
         "model = PeftModel.from_pretrained(base, \"PATH_TO_THIS_FOLDER\")\n" +
         (text.has_generation ? "model.generation_config = "
                                "GenerationConfig.from_pretrained(\"PATH_TO_THIS_FOLDER\")\n"
                              : "") +
         (has_tokenizer ? "tokenizer = AutoTokenizer.from_pretrained(\"PATH_TO_THIS_FOLDER\")\n"
                        : "") +
         "```\n";
}

}  // namespace

std::string card_head(const std::string& library, const std::string& task,
                      std::initializer_list<std::string> tags, const std::string& title) {
  std::string head = "---\n";
  if (!library.empty()) head += "library_name: " + library + "\n";
  if (!task.empty()) head += "pipeline_tag: " + task + "\n";
  head += "tags:\n";
  for (const std::string& tag : tags) head += "- " + tag + "\n";
  return head + "---\n\n# " + title + "\n\n";
}

std::string written_from(const train::TrainedModel& trained) {
  return std::string("Written by accrue ") + version + " from " +
         trained.checkpoint.filename().string() + ".\n";
}

std::string needed_packages(const std::string& packages) {
  return "The Python below needs these packages:\n\n```sh\npip install " + packages + "\n```\n";
}

std::string training_section(const train::TrainedModel& trained) {
  return "\n## Training\n\nThe config of the run:\n\n```toml\n" + train::to_toml(trained.config) +
         "```\n";
}

std::string language_model_card(const train::TrainedModel& trained, const ExportedText& text) {
  const bool is_llama = trained.config.model.kind == train::ModelKind::llama;
  return card_head(
             "transformers", "text-generation", {is_llama ? "llama" : "gpt2", "accrue"},
             is_llama ? "A Llama model trained with accrue" : "A GPT-2 model trained with accrue") +
         shape_in_words(trained) + tokenizer_section(trained, text) + chat_section(text) +
         training_section(trained);
}

std::string masked_model_card(const train::TrainedModel& trained, bool byte_tokens) {
  const bool has_tokenizer = byte_tokens || !trained.tokenizer.empty();
  const std::string tokens =
      byte_tokens ? "Tokens are bytes: the id of a token is the value of the byte, and `[MASK]` "
                    "hides one.\n`tokenizer.json` says so.\n"
      : has_tokenizer ? "`tokenizer.json` made tokens of the text that the model was trained on.\n"
                      : token_files_sentence;
  return card_head("transformers", "fill-mask", {"bert", "accrue"}, "A BERT trained with accrue") +
         shape_in_words(trained) + "\n## Tokenizer\n\n" + tokens + "\n" +
         needed_packages(loading_packages) +
         (has_tokenizer ? filling_masks : loading_masked_model) + training_section(trained);
}

std::string adapter_card(const train::TrainedModel& trained, const ExportedText& text) {
  const models::AdapterOptions& adapters = trained.config.model.lora.adapters;
  return card_head("peft", "text-generation", {std::string(to_string(adapters.kind)), "accrue"},
                   "Adapters trained with accrue") +
         "Of rank " + std::to_string(adapters.rank) + ", for the model in `" +
         trained.config.model.from + "`. " + written_from(trained) + "\n" +
         needed_packages("torch transformers peft") + loading_adapters(text) + chat_section(text) +
         training_section(trained);
}

std::string module_card(const train::TrainedModel& trained) {
  return card_head("", "", {"torchscript", "accrue"}, "A TorchScript module trained with accrue") +
         "`model.pt` holds the module with its trained weights. " + written_from(trained) + "\n" +
         needed_packages("torch") + R"(
```python
import torch

model = torch.jit.load("PATH_TO_THIS_FOLDER/model.pt").eval()
```
)" + training_section(trained);
}

}  // namespace accrue::cli
