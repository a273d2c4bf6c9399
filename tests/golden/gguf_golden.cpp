// The C++ half of gguf_golden.py and gguf_tokenizer_golden.py:
//   gguf_golden write FOLDER DTYPE [nearest]
//                                       loads the model in FOLDER, in fp32, and writes
//   FOLDER/ours.gguf with the tokenizer there, if any, and FOLDER/differences.json
//   gguf_golden adapter FOLDER          loads the model in FOLDER with the adapter in
//   FOLDER/adapter and writes FOLDER/adapter.gguf
//   gguf_golden read FOLDER FILE        loads FOLDER/FILE in fp32 and writes
//   FOLDER/ours.safetensors: its tensors and, if there is a batch.safetensors, "loss"
//   gguf_golden loss FOLDER             loads the model in FOLDER and writes its loss
//   gguf_golden tokenizer FOLDER FILE   writes the tokenizer in FOLDER/FILE to FOLDER/read, and
//   its end tokens to FOLDER/ends.json
//   gguf_golden encode FOLDER           makes tokens of the texts of FOLDER/texts.json by the
//   tokenizer in FOLDER/read, with those around a text, and writes FOLDER/ids.json
#include <fstream>
#include <nlohmann/json.hpp>

#include "accrue/data/tokenizer.h"
#include "accrue/models/adapter_io.h"
#include "accrue/models/gpt2_gguf.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/models/llama_gguf.h"
#include "accrue/models/llama_io.h"
#include "language_golden.h"
#include "support/requests.h"

namespace accrue::models {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_json(const fs::path& file) { return json::parse(std::ifstream(file)); }

void write_json(const fs::path& file, const json& value) { std::ofstream(file) << value.dump(); }

bool is_gpt2(const fs::path& folder) {
  return read_json(folder / "config.json").at("model_type") == "gpt2";
}

void write(const fs::path& folder, const std::string& dtype, bool nearest) {
  const fs::path file = folder / "ours.gguf", tokenizer = folder / "tokenizer.json";
  std::optional<GgufTokens> tokens;
  if (fs::exists(tokenizer)) tokens = GgufTokens{.tokenizer = tokenizer, .nearest = nearest};
  const GgufDtype wanted = gguf_dtype_words.find(dtype).value();
  const GgufDifferences differences =
      is_gpt2(folder) ? save_gpt2_gguf(file, *load_gpt2_folder(folder, {}), wanted, tokens)
                      : save_llama_gguf(file, *load_llama_folder(folder, {}), wanted, tokens);
  write_json(folder / "differences.json", differences);
}

void write_adapter(const fs::path& folder) {
  const AdapterOptions adapters = read_adapter_options(folder / "adapter");
  if (is_gpt2(folder)) {
    const auto model = load_gpt2_folder(folder, {.adapters = adapters});
    load_adapter_folder(folder / "adapter", *model);
    return save_gpt2_gguf_adapter(folder / "adapter.gguf", *model);
  }
  const auto model = load_llama_folder(folder, {.adapters = adapters});
  load_adapter_folder(folder / "adapter", *model);
  save_llama_gguf_adapter(folder / "adapter.gguf", *model);
}

void write_tensors(const fs::path& folder, LanguageModel& model) {
  NamedParameters all;
  for (const NamedParameter& tensor : model.file_tensors())
    all.push_back({tensor.name, tensor.tensor.detach()});
  if (fs::exists(folder / "batch.safetensors"))
    all.push_back({"loss", mean_of(forward(model, read_batch(folder)))});
  write_safetensors(folder / "ours.safetensors", all);
}

/// The folder's config.json names the kind of model; without one it is a llama.
void read(const fs::path& folder, const std::string& file) {
  if (fs::exists(folder / "config.json") && is_gpt2(folder))
    return write_tensors(folder, *load_gpt2_gguf(folder / file, {}));
  write_tensors(folder, *load_llama_gguf(folder / file, {}));
}

void write_loss_of(const fs::path& folder) {
  if (is_gpt2(folder)) return write_loss(folder, *load_gpt2_folder(folder, {}));
  write_loss(folder, *load_llama_folder(folder, {}));
}

void write_tokenizer(const fs::path& folder, const std::string& file) {
  const GgufTokenizer tokenizer = read_gguf_tokenizer(folder / file).value();
  const fs::path out = folder / "read";
  fs::create_directories(out / "additional_chat_templates");
  std::ofstream(out / "tokenizer.json") << tokenizer.tokenizer;
  std::ofstream(out / "tokenizer_config.json") << tokenizer.settings;
  for (const auto& [name, text] : tokenizer.chat_templates)
    std::ofstream(name == "default" ? out / "chat_template.jinja"
                                    : out / "additional_chat_templates" / (name + ".jinja"))
        << text;
  write_json(folder / "ends.json", read_gguf_end_tokens(folder / file));
}

void encode(const fs::path& folder) {
  const auto tokenizer = data::Tokenizer::open(folder / "read" / "tokenizer.json", "encode");
  json all = json::array();
  for (const json& text : read_json(folder / "texts.json"))
    all.push_back(tokenizer->encode(text.get<std::string>(), /*with_template=*/true));
  write_json(folder / "ids.json", all);
}

void run(const std::vector<std::string>& arguments) {
  const std::string& verb = arguments.at(0);
  const fs::path folder = arguments.at(1);
  if (verb == "write") return write(folder, arguments.at(2), arguments.size() > 3);
  if (verb == "adapter") return write_adapter(folder);
  if (verb == "read") return read(folder, arguments.at(2));
  if (verb == "tokenizer") return write_tokenizer(folder, arguments.at(2));
  if (verb == "encode") return encode(folder);
  if (verb == "loss") return write_loss_of(folder);
  throw usage_error("gguf_golden", "write, adapter, read, tokenizer, encode or loss", verb,
                    "gguf_golden.py");
}

}  // namespace
}  // namespace accrue::models

int main(int argc, char** argv) {
  return accrue::testing::run_requests(argc, argv, accrue::models::run);
}
