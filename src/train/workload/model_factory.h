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
/// That of a model of this kind: a bert has an id besides that hides a byte, since each of the
/// others stands for one.
constexpr std::int64_t byte_vocabulary_of(ModelKind kind) {
  return byte_vocabulary + (kind == ModelKind::bert ? 1 : 0);
}

/// Shape and variant of a llama: those of its config_json if it has one, else of the keys.
models::LlamaOptions llama_shape(const ModelConfig& model);

/// If `model.from` names a model that brings its own shape (a Hugging Face folder, a run): loads
/// it and puts its shape into the config; a language model's context may be shorter than that. Adds
/// to `remarks` what was decided. Null if `model.from` names no such model.
std::unique_ptr<models::Model> load_shaping_model(Config& config,
                                                  std::vector<std::string>& remarks);

/// Puts the shape that load_shaping_model() would put into the config, that of adapters and the
/// format of the base too, without loading any weights.
void take_shape_of_origin(Config& config);

/// Puts what the data tell into the config's model: vocabulary or classes, the shape of the images.
/// Throws a usage Error if data and model do not go together.
void fit_model_to_data(Config& config, const data::Source& train);

/// Throws a usage Error if a model that was loaded from a file cannot be trained: a parameter is
/// not finite, or a TorchScript module, whose forward is its own business, does not take a sample
/// of the data or has fewer outputs than there are classes.
void check_loaded_model(const Config& config, models::Model& model, const data::Source& train);

/// Loads the adapters of `lora.from` and freezes what `model.freeze` says, once the model has its
/// weights; adds to `remarks` how much of it is trained, if that is not all. Throws a usage
/// Error if the adapters are of another base, or a pattern matches nothing.
void settle_what_is_trained(const Config& config, models::Model& model,
                            std::vector<std::string>& remarks);

/// make_model() without values, of any size in no memory: to count parameters and the bytes of
/// each.
std::unique_ptr<models::Model> make_model_shapes(const Config& config);

/// make_model(), with the weights of `model.from` where that names a file of them.
std::unique_ptr<models::Model> make_initial_model(const Config& config);

}  // namespace accrue::train
