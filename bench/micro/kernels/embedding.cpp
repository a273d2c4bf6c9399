// Tokens and positions looked up and added, and their gradients added to the main ones.

#include "accrue/kernels/embedding.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "comparison.h"
#include "differentiated.h"

namespace accrue::bench {
namespace {

struct Embeddings {
  explicit Embeddings(const Workload& workload)
      : ids(at::randint(workload.vocabulary, {workload.samples, workload.context}, at::kLong)),
        positions(at::arange(workload.context)),
        tokens_table(random({workload.vocabulary, workload.width}, at::kFloat)),
        positions_table(random({workload.context, workload.width}, at::kFloat)),
        plain_tokens(tokens_table.tensor, at::kFloat),
        plain_positions(positions_table.tensor, at::kFloat) {}
  at::Tensor ours() const {
    return kernels::embed_tokens(ids, tokens_table.tensor, positions_table.tensor);
  }
  at::Tensor theirs() const {
    return at::embedding(plain_tokens.tensor, ids) +
           at::embedding(plain_positions.tensor, positions);
  }
  /// Of the rows of both tables that occur.
  double bytes_of_rows() const {
    const std::int64_t rows = std::min(ids.numel(), tokens_table.tensor.size(0)) + ids.size(1);
    return static_cast<double>(rows * tokens_table.tensor.size(1) * sizeof(float));
  }
  double elements() const { return static_cast<double>(ids.numel() * tokens_table.tensor.size(1)); }
  at::Tensor ids, positions;
  Parameter tokens_table, positions_table;
  PlainParameter plain_tokens, plain_positions;
};

Comparison forward(const Workload& workload) {
  const Embeddings tables(workload);
  return {
      .accrue = [=] { return std::vector{tables.ours()}; },
      .aten = [=] { return std::vector{tables.theirs()}; },
      .flops = tables.elements(),
      .bytes = bytes_of({tables.ids}) + tables.bytes_of_rows() + sizeof(float) * tables.elements()};
}

Comparison backward(const Workload& workload) {
  const Embeddings tables(workload);
  const at::Tensor grad = random({workload.samples, workload.context, workload.width}, at::kFloat);
  const Backward ours{
      {tables.ours()}, {tables.tokens_table.tensor, tables.positions_table.tensor}, {grad}};
  const Backward theirs{
      {tables.theirs()}, {tables.plain_tokens.tensor, tables.plain_positions.tensor}, {grad}};
  return {
      .accrue =
          [=] {
            ours();
            return std::vector{tables.tokens_table.slot->main, tables.positions_table.slot->main};
          },
      .aten =
          [=] {
            const torch::autograd::variable_list grads = theirs();
            at::Tensor tokens = tables.plain_tokens.main, positions = tables.plain_positions.main;
            return std::vector{tokens.add_(grads[0]), positions.add_(grads[1])};
          },
      .flops = 2 * tables.elements(),
      .bytes = bytes_of({tables.ids, grad}) + 2 * tables.bytes_of_rows()};
}

}  // namespace

void add_embedding() {
  for (const Workload& workload : workloads) {
    add_comparison({"embedding_forward", workload, at::kFloat}, [=] { return forward(workload); });
    add_comparison({"embedding_backward", workload, at::kFloat},
                   [=] { return backward(workload); });
  }
}

}  // namespace accrue::bench
