#pragma once

/// The systems of the table of translations, by the names that their users call them.
namespace accrue::train {

constexpr const char* kAccelerate = "Accelerate";
constexpr const char* kAxolotl = "axolotl";
constexpr const char* kComposer = "Composer";
constexpr const char* kDeepSpeed = "DeepSpeed";
constexpr const char* kFairseq = "fairseq";
constexpr const char* kHuggingFace = "Hugging Face";
constexpr const char* kKeras = "Keras";
constexpr const char* kLightning = "Lightning";
constexpr const char* kLitGpt = "LitGPT";
constexpr const char* kLlmC = "llm.c";
constexpr const char* kMegatron = "Megatron-LM";
constexpr const char* kMmEngine = "MMEngine";
constexpr const char* kNanoChat = "nanochat";
constexpr const char* kNanoGpt = "nanoGPT";
constexpr const char* kOptax = "optax";
constexpr const char* kPyTorch = "PyTorch";
constexpr const char* kScripts = "PyTorch scripts";
constexpr const char* kTimm = "timm";
constexpr const char* kTorchTitan = "torchtitan";
constexpr const char* kTorchTune = "torchtune";

}  // namespace accrue::train
