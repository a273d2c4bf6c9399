// The C++ half of gguf_golden.py:
//   gguf_golden write FOLDER DTYPE      loads the model in FOLDER, in fp32, and writes
//   FOLDER/ours.gguf with the tokenizer there, if any
//   gguf_golden adapter FOLDER          loads the model in FOLDER with the adapter in
//   FOLDER/adapter and writes FOLDER/adapter.gguf
//   gguf_golden read FOLDER FILE        loads FOLDER/FILE in fp32 and writes
//   FOLDER/ours.safetensors: its tensors and, where there is a batch.safetensors, "loss"
//   gguf_golden loss FOLDER             loads the model in FOLDER and writes its loss
//   gguf_golden tokenizer FOLDER FILE   writes the tokenizer in FOLDER/FILE to FOLDER/read
#include <fstream>

#include "accrue/models/adapter_io.h"
#include "accrue/models/llama_gguf.h"
#include "accrue/models/llama_io.h"
#include "language_golden.h"
#include "support/requests.h"

namespace accrue::models {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& folder, const std::string& dtype) {
  const auto model = load_llama_folder(folder, {});
  const fs::path tokenizer = folder / "tokenizer.json";
  save_llama_gguf(folder / "ours.gguf", *model, gguf_dtype_words.find(dtype).value(),
                  fs::exists(tokenizer) ? std::optional(tokenizer) : std::nullopt);
}

void write_adapter(const fs::path& folder) {
  const auto model =
      load_llama_folder(folder, {.adapters = read_adapter_options(folder / "adapter")});
  load_adapter_folder(folder / "adapter", *model);
  save_llama_gguf_adapter(folder / "adapter.gguf", *model);
}

void read(const fs::path& folder, const std::string& file) {
  const auto model = load_llama_gguf(folder / file, {});
  NamedParameters all;
  for (const NamedParameter& tensor : model->file_tensors())
    all.push_back({tensor.name, tensor.tensor.detach()});
  if (fs::exists(folder / "batch.safetensors"))
    all.push_back({"loss", mean_of(forward(*model, read_batch(folder)))});
  write_safetensors(folder / "ours.safetensors", all);
}

void write_tokenizer(const fs::path& folder, const std::string& file) {
  const GgufTokenizer tokenizer = read_gguf_tokenizer(folder / file).value();
  fs::create_directory(folder / "read");
  std::ofstream(folder / "read" / "tokenizer.json") << tokenizer.tokenizer;
  std::ofstream(folder / "read" / "tokenizer_config.json") << tokenizer.settings;
  std::ofstream(folder / "read" / "chat_template.jinja") << tokenizer.chat_template;
}

void run(const std::vector<std::string>& arguments) {
  const std::string& verb = arguments.at(0);
  const fs::path folder = arguments.at(1);
  if (verb == "write") return write(folder, arguments.at(2));
  if (verb == "adapter") return write_adapter(folder);
  if (verb == "read") return read(folder, arguments.at(2));
  if (verb == "tokenizer") return write_tokenizer(folder, arguments.at(2));
  if (verb == "loss") return write_loss(folder, *load_llama_folder(folder, {}));
  throw usage_error("gguf_golden", "write, adapter, read, tokenizer or loss", verb,
                    "gguf_golden.py");
}

}  // namespace
}  // namespace accrue::models

int main(int argc, char** argv) {
  return accrue::testing::run_requests(argc, argv, accrue::models::run);
}
