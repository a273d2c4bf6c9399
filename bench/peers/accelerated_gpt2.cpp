// The GPT-2 and the loop of plain_libtorch.cpp with an Accumulator in it: --accelerate=1 with
// accrue::accelerate(), --allocator=1 with accrue's caching allocator. Prints the same JSON object.
#include <optional>

#include "accrue/accum/accumulator.h"
#include "accrue/kernels/accelerate.h"
#include "accrue/memory/caching_allocator.h"
#include "plain_gpt2.h"

namespace {

namespace F = torch::nn::functional;

double run_step(plain::Gpt2& model, accrue::Accumulator& acc, torch::optim::AdamW& optimizer,
                int64_t micro, int64_t count, const plain::Shape& shape) {
  for (int64_t k = 0; k < count; ++k) {
    const auto ids = torch::randint(shape.vocab, {micro, shape.context + 1}, torch::kInt64);
    const auto logits = model(ids.narrow(1, 0, shape.context));
    const auto loss = F::cross_entropy(logits.view({-1, shape.vocab}),
                                       ids.narrow(1, 1, shape.context).reshape({-1}),
                                       F::CrossEntropyFuncOptions().reduction(torch::kSum));
    acc.backward(accrue::Loss{loss, static_cast<double>(micro * shape.context)});
  }
  return acc.step(optimizer).loss.value();
}

}  // namespace

int main(int argc, char** argv) {
  auto v = plain::parse(argc, argv, {{"accelerate", 0}, {"allocator", 0}});
  if (v["allocator"] != 0) accrue::memory::install_caching_allocator();
  const plain::Shape shape = plain::shape_of(v);
  at::set_num_threads(static_cast<int>(v["threads"]));
  torch::manual_seed(1337);
  plain::Gpt2 model(shape);
  torch::optim::AdamW optimizer(
      model->parameters(), torch::optim::AdamWOptions(3e-4).betas({0.9, 0.95}).weight_decay(0.1));
  std::optional<accrue::Accelerated> accelerated;
  if (v["accelerate"] != 0) accelerated.emplace(accrue::detail::named_parameters_of(model));
  accrue::Accumulator acc(model, {.clip_norm = 1.0});
  plain::measure(v, [&] { return run_step(model, acc, optimizer, v["micro"], v["count"], shape); });
}
