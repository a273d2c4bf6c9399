#pragma once

#include <string>
#include <vector>

#include "accrue/models/llama_gguf.h"
#include "models/files/gguf/container/gguf_writer.h"
#include "models/files/gguf/models/llama_gguf_architecture.h"

namespace accrue::models {

/// A GGUF file's statements about a model, except for its tokens.
struct GgufStatement {
  const GgufArchitecture& architecture;
  GgufKeyWriter keys;
  std::vector<float> rotary_factors;  ///< empty if there are none
};

/// The architecture of a model. `operation` is that of the usage Error if llama.cpp has none.
const GgufArchitecture& gguf_architecture_of(const LlamaOptions& options,
                                             const std::string& operation);

/// `operation` is that of the usage Error that names the property that GGUF cannot state.
GgufStatement state_in_gguf(const LlamaOptions& options, GgufDtype dtype,
                            const std::string& operation);

}  // namespace accrue::models
