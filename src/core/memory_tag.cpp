#include "accrue/core/memory_tag.h"

namespace accrue {
namespace {

thread_local MemoryTag current = MemoryTag::working;

}  // namespace

MemoryTag memory_tag() { return current; }

MemoryTagScope::MemoryTagScope(MemoryTag tag) : before_(current) { current = tag; }
MemoryTagScope::~MemoryTagScope() { current = before_; }

}  // namespace accrue
