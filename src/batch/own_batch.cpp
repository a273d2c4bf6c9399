#include "accrue/batch/own_batch.h"

#include <cxxabi.h>

#include <cstdlib>
#include <string>

#include "accrue/core/error.h"

namespace accrue::batch {
namespace {

std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return name ? name.get() : type.name();
}

}  // namespace

void OwnBatch::refuse(const std::type_info& expected) const {
  const std::string wanted = name_of(expected);
  throw usage_error("read a batch of the program's own",
                    "a source that makes a " + wanted + " of its samples",
                    type_ == nullptr ? "one that makes an accrue::batch::MicroBatch alone"
                                     : "one that makes a " + name_of(*type_),
                    "accrue::data::own_source<" + wanted + ">({.size, .fetch, .identity})");
}

}  // namespace accrue::batch
