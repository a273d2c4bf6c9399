// The headers that nearly every file that touches tensors needs; precompiled once
// (cmake/AccrueTargets.cmake). torch/torch.h is left out on purpose: it triples the cost of every
// file, and only tests, examples and the adapters of torch::nn and torch::optim need it.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>
