#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accrue/models/llama.h"
#include "accrue/models/model.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The vocabulary of a model of text by bytes.
inline constexpr std::int64_t byte_vocabulary = 256;
/// The same for a model of this kind: a bert has an additional id that hides a byte, since each of
/// the others stands for one.
constexpr std::int64_t byte_vocabulary_of(ModelKind kind) {
  return byte_vocabulary + (kind == ModelKind::bert ? 1 : 0);
}

/// Shape and variant of a llama: from its config_json if it has one, else from the keys.
models::LlamaOptions llama_shape(const ModelConfig& model);

/// If `model.from` names a model with its own shape (a Hugging Face folder, a run): loads it and
/// writes its shape to the config; a language model's context may be shorter than that. Adds the
/// decisions to `remarks`. Null if `model.from` names no such model.
std::unique_ptr<models::Model> load_shaping_model(Config& config,
                                                  std::vector<std::string>& remarks);

/// Writes the shape that load_shaping_model() would write to the config, including that of adapters
/// and the format of the base, without loading any weights.
void take_shape_of_origin(Config& config);

/// Writes what follows from the data to the config's model: vocabulary or classes, the shape of the
/// images. Throws a usage Error if data and model do not fit.
void fit_model_to_data(Config& config, const data::Source& train);

/// Throws a usage Error if a model that was loaded from a file cannot be trained: a parameter is
/// not finite, or a TorchScript module, whose forward is not known here, does not take a sample of
/// the data or has fewer outputs than there are classes.
void check_loaded_model(const Config& config, models::Model& model, const data::Source& train);

/// Loads the adapters of `lora.from` and freezes the parameters in `model.freeze`, once the model
/// has its weights; adds to `remarks` how much of it is trained, if that is not all. Throws a usage
/// Error if the adapters are of another base, or a pattern matches nothing.
void apply_adapters_and_freeze(const Config& config, models::Model& model,
                               std::vector<std::string>& remarks);

/// make_model() without values, of any size without memory: to count parameters and their
/// bytes.
std::unique_ptr<models::Model> make_model_shapes(const Config& config);

/// make_model(), with the weights of `model.from` if that names a weights file.
std::unique_ptr<models::Model> make_initial_model(const Config& config);

}  // namespace accrue::train
