#pragma once

#include "accrue/models/bert.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/llama.h"
#include "accrue/models/resnet.h"
#include "accrue/models/vit.h"
#include "accrue/train/config.h"

namespace accrue::train {

// Converts a config, whose shape is filled in, to the options of a model.

models::LossOptions loss_options(const Config& config);
models::Gpt2Options gpt2_options(const Config& config);
models::LlamaOptions llama_options(const Config& config);
models::BertOptions bert_options(const Config& config);
models::ResNetOptions resnet_options(const Config& config);
models::VitOptions vit_options(const Config& config);

}  // namespace accrue::train
