// GPT-2 as a careful user writes it on libtorch alone: torch::nn, fused attention, cross-entropy
// over all logits, torch::optim::AdamW, loss / K. What accrue is measured against; it uses nothing
// of accrue. Prints one JSON object: tokens per second of each optimizer step after a warm-up step.
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

namespace F = torch::nn::functional;

struct Shape {
  int64_t layers, heads, width, context, vocab;
};

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const Shape& shape)
      : heads(shape.heads),
        ln_1(register_module("ln_1",
                             torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})))),
        ln_2(register_module("ln_2",
                             torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})))),
        qkv(register_module("qkv", torch::nn::Linear(shape.width, 3 * shape.width))),
        proj(register_module("proj", torch::nn::Linear(shape.width, shape.width))),
        fc(register_module("fc", torch::nn::Linear(shape.width, 4 * shape.width))),
        out(register_module("out", torch::nn::Linear(4 * shape.width, shape.width))) {}

  torch::Tensor forward(torch::Tensor x) {
    const auto batch = x.size(0), time = x.size(1), width = x.size(2);
    auto parts = qkv(ln_1(x)).chunk(3, 2);
    for (auto& part : parts) part = part.view({batch, time, heads, width / heads}).transpose(1, 2);
    auto attended = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    x = x + proj(attended.transpose(1, 2).reshape({batch, time, width}));
    return x + out(F::gelu(fc(ln_2(x)), F::GELUFuncOptions().approximate("tanh")));
  }

  int64_t heads;
  torch::nn::LayerNorm ln_1, ln_2;
  torch::nn::Linear qkv, proj, fc, out;
};
TORCH_MODULE(Block);

struct Gpt2Impl : torch::nn::Module {
  explicit Gpt2Impl(const Shape& shape)
      : wte(register_module("wte", torch::nn::Embedding(shape.vocab, shape.width))),
        wpe(register_module("wpe", torch::nn::Embedding(shape.context, shape.width))),
        blocks(register_module("blocks", torch::nn::ModuleList())),
        ln_f(register_module("ln_f",
                             torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})))) {
    for (int64_t i = 0; i < shape.layers; ++i) blocks->push_back(Block(shape));
    torch::NoGradGuard no_grad;
    for (auto& p : parameters())
      if (p.dim() > 1) p.normal_(0, 0.02);
  }

  torch::Tensor forward(const torch::Tensor& ids) {
    auto x = wte(ids) + wpe->weight.narrow(0, 0, ids.size(1));
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return F::linear(ln_f(x), wte->weight);
  }

  torch::nn::Embedding wte, wpe;
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm ln_f;
};
TORCH_MODULE(Gpt2);

std::map<std::string, int64_t> parse(int argc, char** argv) {
  std::map<std::string, int64_t> values{{"layers", 6},    {"heads", 6},   {"width", 384},
                                        {"context", 256}, {"vocab", 256}, {"micro", 4},
                                        {"count", 16},    {"steps", 3},   {"threads", 2}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto equals = argument.find('=');
    if (argument.rfind("--", 0) != 0 || equals == std::string::npos ||
        !values.count(argument.substr(2, equals - 2))) {
      std::fprintf(stderr, "error: plain_libtorch: expected --key=number, received %s\n", argv[i]);
      std::exit(2);
    }
    values[argument.substr(2, equals - 2)] = std::atoll(argument.c_str() + equals + 1);
  }
  return values;
}

double run_step(Gpt2& model, torch::optim::AdamW& optimizer, int64_t micro, int64_t count,
                const Shape& shape, double& loss_value) {
  const auto start = std::chrono::steady_clock::now();
  optimizer.zero_grad();
  loss_value = 0;
  for (int64_t k = 0; k < count; ++k) {
    const auto ids = torch::randint(shape.vocab, {micro, shape.context + 1}, torch::kInt64);
    const auto logits = model(ids.narrow(1, 0, shape.context));
    const auto loss = F::cross_entropy(logits.view({-1, shape.vocab}),
                                       ids.narrow(1, 1, shape.context).reshape({-1}));
    (loss / static_cast<double>(count)).backward();
    loss_value += loss.item<double>() / static_cast<double>(count);
  }
  torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
  optimizer.step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  auto v = parse(argc, argv);
  const Shape shape{v["layers"], v["heads"], v["width"], v["context"], v["vocab"]};
  at::set_num_threads(static_cast<int>(v["threads"]));
  torch::manual_seed(1337);
  Gpt2 model(shape);
  torch::optim::AdamW optimizer(
      model->parameters(), torch::optim::AdamWOptions(3e-4).betas({0.9, 0.95}).weight_decay(0.1));
  double loss = 0;
  run_step(model, optimizer, v["micro"], v["count"], shape, loss);
  std::printf("{\"tokens_per_second\": [");
  for (int64_t i = 0; i < v["steps"]; ++i) {
    const double seconds = run_step(model, optimizer, v["micro"], v["count"], shape, loss);
    std::printf("%s%.1f", i ? ", " : "",
                static_cast<double>(v["micro"] * v["count"] * shape.context) / seconds);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("], \"loss\": %.4f, \"peak_resident_bytes\": %lld}\n", loss,
              static_cast<long long>(usage.ru_maxrss) * 1024);
}
