// A GGUF file: its tensors, its keys that describe a model, and its tokens.
#include <ATen/ATen.h>

#include "accrue/data/tokenizer.h"
#include "fuzz_targets.h"
#include "models/files/config/gpt2_config.h"
#include "models/files/config/llama_config.h"
#include "models/files/gguf/container/gguf_file.h"
#include "models/files/gguf/models/gpt2_gguf_config.h"
#include "models/files/gguf/models/llama_gguf_config.h"
#include "models/files/gguf/tokenizer/gguf_tokenizer_keys.h"
#include "scratch.h"

namespace accrue::fuzz {

void fuzz_gguf(Input input) {
  const models::GgufFile file(put("model.gguf", input));
  std::size_t bytes = 0;
  for (const models::GgufTensor& tensor : file.tensors()) {
    bytes += static_cast<std::size_t>(tensor.bytes);
    expect(file.stored(tensor).read().numel() == tensor.elements, "a tensor is as large as stated");
  }
  expect(bytes <= input.size(), "tensors are not larger than their file");
  if (file.text("general.architecture") == models::gguf_gpt2)
    models::parse_gpt2_config(models::gpt2_config_of_gguf(file), file.name(), {});
  else
    models::parse_llama_config(models::config_of_gguf(file), file.name(), {});
}

void fuzz_gguf_tokenizer(Input input) {
  const models::GgufFile file(put("model.gguf", input));
  const auto made = models::tokenizer_of(file);
  if (!made) return;
  put("gguf_tokenizer/tokenizer_config.json", bytes_of(made->settings));
  const auto tokenizer = data::Tokenizer::open(
      put("gguf_tokenizer/tokenizer.json", bytes_of(made->tokenizer)), "data.tokenizer");
  for (const std::int64_t id : tokenizer->encode("  It's 123 words,\r\n <s>a", true))
    expect(id >= 0 && id < tokenizer->vocab(), "ids are those of tokens");
}

}  // namespace accrue::fuzz
