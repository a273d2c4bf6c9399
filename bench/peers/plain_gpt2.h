// GPT-2 as a careful user writes it on libtorch alone: torch::nn, fused attention, logits by the
// token table. It uses nothing of accrue.
#pragma once

#include <sys/resource.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace plain {

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

/// Sizes of the model and its batch by --key=number; `others` are defaults of further keys.
inline std::map<std::string, int64_t> parse(int argc, char** argv,
                                            const std::map<std::string, int64_t>& others = {}) {
  std::map<std::string, int64_t> values{{"layers", 6},    {"heads", 6},   {"width", 384},
                                        {"context", 256}, {"vocab", 256}, {"micro", 4},
                                        {"count", 16},    {"steps", 3},   {"threads", 2}};
  values.insert(others.begin(), others.end());
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto equals = argument.find('=');
    if (argument.rfind("--", 0) != 0 || equals == std::string::npos ||
        !values.count(argument.substr(2, equals - 2))) {
      std::fprintf(stderr, "error: %s: expected --key=number, received %s\n", argv[0], argv[i]);
      std::exit(2);
    }
    values[argument.substr(2, equals - 2)] = std::atoll(argument.c_str() + equals + 1);
  }
  return values;
}

inline Shape shape_of(std::map<std::string, int64_t>& values) {
  return {values["layers"], values["heads"], values["width"], values["context"], values["vocab"]};
}

inline void print_list(const char* name, const std::vector<double>& numbers) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < numbers.size(); ++i) std::printf("%s%.6f", i ? ", " : "", numbers[i]);
  std::printf("]");
}

/// Runs `step`, which returns its loss and takes so many tokens or images, once to warm up and
/// `steps` times for the figures; prints one JSON object.
template <class Step>
void measure(std::map<std::string, int64_t>& values, int64_t units, const Step& step) {
  std::vector<double> losses{step()};
  std::printf("{\"per_second\": [");
  for (int64_t i = 0; i < values["steps"]; ++i) {
    const auto start = std::chrono::steady_clock::now();
    losses.push_back(step());
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%s%.2f", i ? ", " : "", static_cast<double>(units) / seconds);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("], ");
  print_list("losses", losses);
  std::printf(", \"peak_resident_bytes\": %lld}\n", static_cast<long long>(usage.ru_maxrss) * 1024);
}

}  // namespace plain
