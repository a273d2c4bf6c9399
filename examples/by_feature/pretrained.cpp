// Starts from a Hugging Face GPT-2 folder (config.json and model.safetensors) and trains on. The
// folder here is made first, so that the example needs no download; with GPT-2's own it works the
// same.
//   pretrained TEXT_FILE FOLDER
#include <accrue/core/error.h>
#include <accrue/models/gpt2_io.h>
#include <accrue/train/trainer.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s TEXT_FILE FOLDER\n", argv[0]);
    return 2;
  }
  const std::string base = std::string(argv[2]) + "/base";
  try {
    const accrue::models::Gpt2 model(
        {.layers = 2, .heads = 4, .width = 64, .context = 32, .vocab = 256});
    accrue::models::save_gpt2_folder(base, model);

    accrue::train::Config config;
    config.model.from = base;  // layers, heads, width, context and vocabulary follow from it
    config.data.train = {argv[1]};
    config.data.val_fraction = 0.1;
    config.run.out = std::string(argv[2]) + "/fine-tuned";
    config.run.steps = 20;
    config.batch.samples = 32;
    config.batch.micro = 8;
    config.optim.lr = 3e-3;
    config.optim.schedule.kind = accrue::optim::ScheduleKind::constant;
    const accrue::train::RunResult result = accrue::train::Trainer(config).run();
    std::printf("held-out loss after %lld steps: %.3f\n", static_cast<long long>(result.step),
                result.eval_loss.value());
    return result.eval_loss.value() < 5.0 ? 0 : 1;
  } catch (const accrue::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  }
}
